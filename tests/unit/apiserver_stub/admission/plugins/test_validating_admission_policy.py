"""Tests for the ValidatingAdmissionPolicy admission plugin: policies, bindings and parameters, and actions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from apiserver_stub.admission import AdmissionChain
from apiserver_stub.admission.listers import Lister
from apiserver_stub.admission.plugins.validating_admission_policy import ValidatingAdmissionPolicy
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.options import parse
from apiserver_stub.server.kinds import build_registry
from apiserver_stub.verbs.admission import AdmissionRequest
from nodeagent.base.identity import Identity
from tests.unit.apiserver_stub.admission.conftest import make_call
from tests.unit.apiserver_stub.admission.webhooks import GROUP, RULE, config_map
from tests.unit.apiserver_stub.authz.conftest import Memory

REGISTRY = build_registry(parse(["--compatibility-version=1.36"]))
MAPS, BINDINGS = REGISTRY.find("", "v1", "configmaps"), REGISTRY.find(GROUP, "v1", "validatingadmissionpolicybindings")
SECRETS = {"paramKind": {"apiVersion": "v1", "kind": "Secret"}}
NO_PARAMS = "no params found for policy binding with `Deny` parameterNotFoundAction"


class Cluster:
    """A server with policies."""

    def __init__(self) -> None:
        self.store: Any = Memory()
        self.store.put("core/namespaces", {"metadata": {"name": "default", "labels": {"env": "test"}}})
        self.manifests: Any = None

    def add(self, name: str, *expressions: str, binding: Any = None, **spec: Any) -> None:
        """Store a policy that requires *expressions*, and its binding."""
        given = {
            "matchConstraints": {"resourceRules": [RULE]},
            "validations": [{"expression": text} for text in expressions],
            **spec,
        }
        bound = {"policyName": name, "validationActions": ["Deny"], **(binding or {})}
        self.store.put(f"{GROUP}/validatingadmissionpolicies", {"metadata": {"name": name}, "spec": given})
        self.store.put(f"{GROUP}/validatingadmissionpolicybindings", {"metadata": {"name": name}, "spec": bound})

    def add_secret(self, name: str, namespace: str = "default", **labels: str) -> None:
        self.store.put("core/secrets", {"metadata": {"name": name, "namespace": namespace, "labels": labels}})

    async def send(self, **attributes: Any) -> tuple[AdmissionRequest, ApiError | None]:
        async def decide(user: Any, info: Any) -> tuple[bool, str]:
            return info.verb == "get", ""

        plugin = ValidatingAdmissionPolicy(Lister(self.store), REGISTRY, decide, Identity(), self.manifests)
        call = make_call(config_map(own="x"), **{"resource": MAPS, **attributes})
        try:
            if plugin.concerns(call.resource, call.operation, call.subresource):
                await AdmissionChain([plugin]).check(call)
        except ApiError as error:
            return call, error
        return call, None

    async def problem(self, **attributes: Any) -> str:
        """Return the failures that deny a request, empty if it is admitted."""
        _, error = await self.send(**attributes)
        return error.message.partition("denied request: ")[2] if error else ""


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.mark.row("admission.ValidatingAdmissionPolicy")
async def test_failed_validation_denies_the_request(cluster: Cluster) -> None:
    cluster.add("a", "object.data.own == 'x'", "object.data.own == 'y'")

    _, error = await cluster.send()

    assert error is not None
    message = "ValidatingAdmissionPolicy 'a' with binding 'a' denied request: failed expression: object.data.own == 'y'"
    assert error.message == f'configmaps "m" is forbidden: {message}'
    assert error.details == {"name": "m", "kind": "configmaps", "causes": [{"message": message}]}


@pytest.mark.parametrize(
    ("reason", "code"),
    [(None, 422), ("Forbidden", 403), ("Unauthorized", 401), ("RequestEntityTooLarge", 413), ("Other", 422)],
)
async def test_code_follows_the_reason_of_the_validation(cluster: Cluster, reason: Any, code: int) -> None:
    cluster.add("a", validations=[{"expression": "false", "reason": reason}])

    _, error = await cluster.send()

    assert error is not None
    assert (error.code, error.reason) == (code, reason or "Invalid")


async def test_warnings_and_audit_annotations_do_not_deny(cluster: Cluster) -> None:
    cluster.add("a", "true", "false", binding={"validationActions": ["Warn", "Audit"]})
    annotation = {"key": "k", "valueExpression": "'v'"}
    cluster.add("b", auditAnnotations=[annotation, {**annotation, "valueExpression": "'w'"}, annotation])

    call, error = await cluster.send()

    assert error is None
    text = "Validation failed for ValidatingAdmissionPolicy 'a' with binding 'a': failed expression: false"
    assert call.request.warnings == [text]
    note = {"message": "failed expression: false", "policy": "a", "binding": "a", "expressionIndex": 1}
    failure = call.request.annotations.pop("validation.policy.admission.k8s.io/validation_failure")
    assert json.loads(failure) == [{**note, "validationActions": ["Warn", "Audit"]}]
    assert call.request.annotations == {"b/k": "v, w"}


async def test_authorization_checks_do_not_repeat_warnings(cluster: Cluster) -> None:
    check = "authorizer.group('').resource('pods').check('{}').allowed()"
    cluster.add("a", "false", binding={"validationActions": ["Warn"]})
    cluster.add("b", check.format("get"), check.format("list"))

    call, error = await cluster.send()

    assert len(call.request.warnings) == 1
    assert error is not None
    assert error.message.endswith(check.format("list"))


@pytest.mark.parametrize(
    ("spec", "binding", "is_denied"),
    [
        ({}, {}, True),
        ({}, {"policyName": "other"}, False),
        ({}, {"matchResources": {}}, True),
        ({}, {"matchResources": {"resourceRules": [RULE]}}, True),
        ({}, {"matchResources": {"resourceRules": [{**RULE, "resources": ["secrets"]}]}}, False),
        ({}, {"matchResources": {"namespaceSelector": {"matchLabels": {"env": "test"}}}}, True),
        ({}, {"matchResources": {"namespaceSelector": {"matchLabels": {"env": "production"}}}}, False),
        ({}, {"matchResources": {"objectSelector": {"matchLabels": {"a": "b"}}}}, False),
        ({}, {"matchResources": {"excludeResourceRules": [{**RULE, "resources": ["configmaps"]}]}}, False),
        ({}, {"matchResources": {"excludeResourceRules": [{**RULE, "resources": ["secrets"]}]}}, True),
        ({"matchConstraints": {"resourceRules": [{**RULE, "resources": ["secrets"]}]}}, {}, False),
        ({"matchConditions": [{"name": "c", "expression": "object.data.own == 'y'"}]}, {}, False),
        ({"matchConditions": [{"name": "c", "expression": "object.data.own == 'x'"}]}, {}, True),
    ],
)
async def test_constraints_of_policy_and_binding_select_requests(
    cluster: Cluster, spec: Any, binding: Any, *, is_denied: bool
) -> None:
    cluster.add("a", "false", binding=binding, **spec)

    assert bool(await cluster.problem()) is is_denied


@pytest.mark.parametrize(
    ("policy", "problem"),
    [({}, "no such key: none"), ({"failurePolicy": "Fail"}, "no such key"), ({"failurePolicy": "Ignore"}, "")],
)
async def test_failed_condition_follows_the_failure_policy(cluster: Cluster, policy: Any, problem: str) -> None:
    conditions = [{"name": "c", "expression": "object.data.none == 'x'"}]
    cluster.add("a", "true", matchConditions=conditions, **policy)

    found = await cluster.problem()

    assert problem in found
    assert bool(found) == bool(problem)


async def test_failed_audit_annotation_denies_regardless_of_the_actions(cluster: Cluster) -> None:
    annotations = [{"key": "k", "valueExpression": "object.data.none"}]
    cluster.add("a", auditAnnotations=annotations, binding={"validationActions": ["Audit"]})

    assert "no such key: none" in await cluster.problem()


@pytest.mark.parametrize(
    ("reference", "problem"),
    [
        ({"name": "one"}, ""),
        ({"name": "other"}, "failed expression"),
        ({"name": "one", "namespace": "elsewhere"}, NO_PARAMS),
        ({"name": "there", "namespace": "elsewhere"}, "failed expression"),
        ({"name": "absent"}, NO_PARAMS),
        ({"name": "absent", "parameterNotFoundAction": "Deny"}, NO_PARAMS),
        ({"name": "absent", "parameterNotFoundAction": "Allow"}, ""),
        ({"selector": {"matchLabels": {"team": "blue"}}}, ""),
        ({"selector": {}}, "failed expression"),
        ({"selector": {"matchLabels": {"team": "none"}}}, NO_PARAMS),
        (None, "failed expression"),
    ],
)
async def test_parameters_are_selected_by_the_binding(cluster: Cluster, reference: Any, problem: str) -> None:
    cluster.add_secret("one", team="blue")
    cluster.add_secret("two", team="blue")
    cluster.add_secret("other", team="red")
    cluster.add_secret("there", "elsewhere")
    cluster.add(
        "a",
        "params != null && params.metadata.?labels.team.orValue('') == 'blue'",
        binding={"paramRef": reference},
        **SECRETS,
    )

    found = await cluster.problem()

    assert problem in found
    assert bool(found) == bool(problem)


async def test_parameters_of_an_unknown_kind_are_missing(cluster: Cluster) -> None:
    kind = {"paramKind": {"apiVersion": "example.com/v1", "kind": "Widget"}}
    cluster.add("a", "true", binding={"paramRef": {"name": "x"}}, **kind)

    assert await cluster.problem() == NO_PARAMS


async def test_namespace_and_parameters_are_null_without_one(cluster: Cluster) -> None:
    cluster.add("a", "namespaceObject.metadata.labels.env == 'test' && params == null")
    assert await cluster.problem() == ""

    cluster.add("a", "namespaceObject == null")
    assert await cluster.problem(resource=REGISTRY.find("", "v1", "nodes")) == ""


async def test_policies_of_manifests_apply_to_configurations(cluster: Cluster) -> None:
    class Manifests:
        def every(self, plural: str) -> list[Any]:
            name = {"name": "static"}
            if plural == "validatingadmissionpolicies":
                spec = {"matchConstraints": {"resourceRules": [RULE]}, "validations": [{"expression": "false"}]}
                return [{"metadata": name, "spec": spec}]
            return [{"metadata": name, "spec": {"policyName": "static", "validationActions": ["Deny"]}}]

    cluster.add("a", "false")
    assert await cluster.problem(resource=BINDINGS) == ""

    cluster.manifests = Manifests()
    _, error = await cluster.send(resource=BINDINGS)
    assert error is not None
    assert "ValidatingAdmissionPolicy 'static' with binding 'static'" in error.message


def test_policies_are_not_applied_if_they_are_not_served() -> None:
    unused: Any = None
    plugin = ValidatingAdmissionPolicy(Lister(Cluster().store), build_registry(parse([])), unused, Identity())

    assert not plugin.concerns(MAPS, "CREATE", "")
