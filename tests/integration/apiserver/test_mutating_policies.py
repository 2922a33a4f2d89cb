"""Tests for mutating admission policies: their expressions change objects through bindings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from .conftest import Api, Server

pytestmark = pytest.mark.integration
GROUP = "/apis/admissionregistration.k8s.io/v1"
MERGE = "application/merge-patch+json"
PODS, MAPS = "/api/v1/namespaces/default/pods", "/api/v1/namespaces/default/configmaps"
POD = {"metadata": {"name": "web"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    server = Server(tmp_path_factory.mktemp("policies"), "--compatibility-version=1.36")
    yield server.api(close=True)
    server.stop()


@pytest.fixture(autouse=True)
def removed(api: Api) -> Iterator[None]:
    yield
    for path in (f"{GROUP}/mutatingadmissionpolicies", f"{GROUP}/mutatingadmissionpolicybindings", PODS, MAPS):
        api.ok("DELETE", f"{path}?gracePeriodSeconds=0")


def apply(expression: str) -> dict[str, Any]:
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def patch(expression: str) -> dict[str, Any]:
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}


def policy(resource: str, *mutations: dict[str, Any], **spec: Any) -> dict[str, Any]:
    rule = {"operations": ["CREATE", "UPDATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": [resource]}
    match = {"matchConstraints": {"resourceRules": [rule]}}
    return {**match, "mutations": list(mutations), "reinvocationPolicy": "Never", **spec}


def install(api: Api, name: str, spec: dict[str, Any], **binding: Any) -> None:
    api.ok("POST", f"{GROUP}/mutatingadmissionpolicies", {"metadata": {"name": name}, "spec": spec})
    bound = {"metadata": {"name": name}, "spec": {"policyName": name, **binding}}
    api.ok("POST", f"{GROUP}/mutatingadmissionpolicybindings", bound)


def test_configuration_is_merged_into_the_object(api: Api) -> None:
    sidecar = "Object.spec.initContainers{name: 'proxy', image: variables.image, restartPolicy: 'Always'}"
    expression = (
        f"Object{{metadata: Object.metadata{{labels: {{'a': 'b'}}}}, spec: Object.spec{{initContainers: [{sidecar}]}}}}"
    )
    unset = "!has(object.spec.initContainers) || !object.spec.initContainers.exists(c, c.name == 'proxy')"
    spec = policy(
        "pods",
        apply(expression),
        variables=[{"name": "image", "expression": "'proxy:' + string(1 + 1)"}],
        matchConditions=[{"name": "unset", "expression": unset}],
    )
    install(api, "sidecars", spec)

    created = api.ok("POST", PODS, {**POD, "metadata": {"name": "web", "labels": {"own": "x"}}})

    (container,) = created["spec"]["initContainers"]
    assert (container["name"], container["image"], container["restartPolicy"]) == ("proxy", "proxy:2", "Always")
    assert container["terminationMessagePath"] == "/dev/termination-log"
    assert created["metadata"]["labels"] == {"own": "x", "a": "b"}


def test_patch_changes_the_result_of_earlier_mutations(api: Api) -> None:
    key = "'/metadata/annotations/' + jsonpatch.escapeKey('example.com/key')"
    first = patch("[JSONPatch{op: 'add', path: '/metadata/annotations', value: {'k': 'v'}}]")
    second = patch(
        f"[JSONPatch{{op: 'test', path: '/data/a', value: '1'}}, JSONPatch{{op: 'add', path: {key}, value: 'x'}}]"
    )
    third = apply("Object{data: {'count': string(size(object.metadata.annotations))}}")
    install(api, "annotations", policy("configmaps", first, second, third))

    created = api.ok("POST", MAPS, {"metadata": {"name": "m"}, "data": {"a": "1"}})

    assert created["metadata"]["annotations"] == {"k": "v", "example.com/key": "x"}
    assert created["data"] == {"a": "1", "count": "2"}


def test_parameters_and_selectors_limit_the_mutations(api: Api) -> None:
    api.ok("POST", MAPS, {"metadata": {"name": "settings"}, "data": {"team": "blue"}})
    spec = policy(
        "configmaps",
        apply("Object{metadata: Object.metadata{labels: {'team': params.data.team}}}"),
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
    )
    reference = {"name": "settings", "namespace": "default", "parameterNotFoundAction": "Deny"}
    chosen = {"objectSelector": {"matchLabels": {"mutate": "yes"}}}
    install(api, "teams", spec, paramRef=reference, matchResources=chosen)

    chosen_map = api.ok("POST", MAPS, {"metadata": {"name": "a", "labels": {"mutate": "yes"}}})
    other = api.ok("POST", MAPS, {"metadata": {"name": "b"}})
    updated = api.ok("PATCH", f"{MAPS}/b", {"metadata": {"labels": {"mutate": "yes"}}}, content_type=MERGE)

    assert chosen_map["metadata"]["labels"]["team"] == updated["metadata"]["labels"]["team"] == "blue"
    assert "labels" not in other["metadata"]


@pytest.mark.parametrize(
    ("mutation", "problem"),
    [
        (apply("Object{data: {'a': object.data.missing}}"), "no such key: missing"),
        (patch("[JSONPatch{op: 'remove', path: '/nope'}]"), "spec.mutations[0].jsonPatch.expression"),
        (apply("Object{data: {'a': 1}}"), "the result of spec.mutations[0] is invalid"),
    ],
)
@pytest.mark.parametrize("failure", ["Fail", "Ignore"])
def test_failed_mutation_follows_the_failure_policy(
    api: Api, mutation: dict[str, Any], problem: str, failure: str
) -> None:
    install(api, "broken", policy("configmaps", mutation, failurePolicy=failure))

    code, response = api.call("POST", MAPS, {"metadata": {"name": "m"}, "data": {"x": "y"}})

    if failure == "Ignore":
        assert (code, response["data"]) == (201, {"x": "y"})
    else:
        assert code == 422
        assert "policy 'broken' with binding 'broken' denied request" in response["message"]
        assert problem in response["message"]


def test_atomic_lists_cannot_be_changed_by_a_configuration(api: Api) -> None:
    expression = "Object{spec: Object.spec{containers: [Object.spec.containers{name: 'c', command: ['x']}]}}"
    install(api, "atomic", policy("pods", apply(expression)))

    code, response = api.call("POST", PODS, POD)

    assert code == 422
    assert "may not mutate atomic arrays, maps or structs: .spec.containers[].command" in response["message"]


def test_later_policies_run_again_after_changes(api: Api) -> None:
    count = "Object{data: {'seen': string(size(object.data) + 1)}}"
    install(api, "a", policy("configmaps", apply(count), reinvocationPolicy="IfNeeded"))
    install(api, "b", policy("configmaps", apply("Object{data: {'b': 'x'}}")))

    created = api.ok("POST", MAPS, {"metadata": {"name": "m"}, "data": {"a": "1"}})

    assert created["data"] == {"a": "1", "b": "x", "seen": "4"}


@pytest.mark.parametrize(
    ("mutation", "field", "detail"),
    [
        (apply("Object{"), "applyConfiguration.expression", "compilation failed"),
        (apply("Object{data: nope}"), "applyConfiguration.expression", "undeclared reference to 'nope'"),
        (apply("Other{}"), "applyConfiguration.expression", "undeclared reference to 'Other'"),
        (apply("JSONPatch{op: 'add'}"), "applyConfiguration.expression", "must evaluate to Object"),
        (patch("Object{}"), "jsonPatch.expression", "must evaluate to list(JSONPatch)"),
        (apply(" "), "applyConfiguration.expression", "Required value"),
        ({"patchType": "JSONPatch"}, "jsonPatch", "Required value"),
        ({"patchType": "Other"}, "patchType", "Unsupported value"),
        (apply("Object{}") | {"jsonPatch": {"expression": "[]"}}, "jsonPatch", "Invalid value"),
    ],
)
def test_invalid_mutation_is_rejected(api: Api, mutation: dict[str, Any], field: str, detail: str) -> None:
    body = {"metadata": {"name": "bad"}, "spec": policy("pods", mutation)}

    code, response = api.call("POST", f"{GROUP}/mutatingadmissionpolicies", body)

    assert code == 422
    (cause,) = response["details"]["causes"]
    assert cause["field"] == f"spec.mutations[0].{field}"
    assert detail in cause["message"]


def test_policy_requires_mutations_and_a_reinvocation_policy(api: Api) -> None:
    spec = policy("pods")
    del spec["reinvocationPolicy"]

    code, response = api.call("POST", f"{GROUP}/mutatingadmissionpolicies", {"metadata": {"name": "p"}, "spec": spec})

    assert code == 422
    assert [item["field"] for item in response["details"]["causes"]] == ["spec.mutations", "spec.reinvocationPolicy"]
