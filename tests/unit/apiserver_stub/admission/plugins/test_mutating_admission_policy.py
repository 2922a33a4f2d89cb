"""Tests for the MutatingAdmissionPolicy admission plugin: policies, bindings and parameters, and failures."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.admission import AdmissionChain, AdmissionPlugin
from apiserver_stub.admission.plugins.mutating_admission_policy import MutatingAdmissionPolicy
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.kinds.registry import Resource
from apiserver_stub.options import parse
from apiserver_stub.server.kinds import build_registry
from nodeagent.base.identity import Identity

GROUP = "admissionregistration.k8s.io"
REGISTRY = build_registry(parse(["--compatibility-version=1.36"]))
MAPS, NODES, PODS = (REGISTRY.find("", "v1", plural) for plural in ("configmaps", "nodes", "pods"))
RULE = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*", "*/*"]}


class Cluster:
    """Lister of objects by collection."""

    def __init__(self) -> None:
        self.objects: dict[str, list[Any]] = {}

    def add(self, collection: str, name: str, **fields: Any) -> None:
        metadata = {"name": name, "namespace": "default", "labels": fields.pop("labels", {})}
        self.objects.setdefault(collection, []).append({"metadata": metadata, **fields})

    def every(self, collection: str, namespace: str = "") -> list[Any]:
        return self.objects.setdefault(collection, [])

    def find(self, collection: str, name: str, namespace: str = "") -> Any:
        return next((item for item in self.every(collection) if item["metadata"]["name"] == name), None)

    def namespace(self, name: str) -> Any:
        return {"metadata": {"name": name, "labels": {"env": "test"}}}

    def add_configured(self, name: str, *expressions: str, **spec: Any) -> None:
        """Add a policy with configurations that are merged into objects."""
        mutations = [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": t}} for t in expressions]
        self.add_policy(name, mutations=mutations, **spec)

    def add_policy(self, name: str, *expressions: str, binding: Any = None, **spec: Any) -> None:
        mutations = [{"patchType": "JSONPatch", "jsonPatch": {"expression": text}} for text in expressions]
        match = {"resourceRules": [RULE]}
        self.add(
            f"{GROUP}/mutatingadmissionpolicies",
            name,
            spec={"matchConstraints": match, "mutations": mutations, "reinvocationPolicy": "Never", **spec},
        )
        self.add(f"{GROUP}/mutatingadmissionpolicybindings", name, spec={"policyName": name, **(binding or {})})


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def admit(cluster, call):
    async def decide(user, info):
        return info.verb == "get", "rules"

    async def admit(obj=None, *others: AdmissionPlugin, **attributes: Any) -> Any:
        obj = obj or config_map()
        plugin = MutatingAdmissionPolicy(cluster, REGISTRY, decide, Identity())
        request = call(obj, **{"resource": MAPS, **attributes})
        if plugin.concerns(request.resource, request.operation, request.subresource):
            await AdmissionChain([plugin, *others]).check(request)
        return {key: value for key, value in obj.get("data", {}).items() if key != "own"}

    return admit


def config_map() -> dict[str, Any]:
    metadata = {"name": "m", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"own": "x"}}


def put(key: str, value: str) -> str:
    return f"[JSONPatch{{op: 'add', path: '/data/{key}', value: {value}}}]"


def count(key: str = "count") -> str:
    """Return an expression that counts the mutations."""
    return put(key, f"has(object.data.{key}) ? object.data.{key} + '+' : '1'")


async def test_policies_are_applied_in_the_order_of_their_names(cluster, admit):
    cluster.add_policy("b", put("last", "'b'"), put("all", "object.data.all + 'b'"))
    cluster.add_policy("a", put("last", "'a'"), put("all", "'a'"))

    assert await admit() == {"last": "b", "all": "ab"}


async def test_policy_without_a_binding_or_with_that_of_another_is_not_applied(cluster, admit):
    cluster.add_policy("bound", put("bound", "'x'"))
    cluster.add_policy("unbound", put("unbound", "'x'"), binding={"policyName": "bound"})

    assert await admit() == {"bound": "x"}


async def test_conditions_and_constraints_exclude_objects(cluster, admit):
    cluster.add_policy("a", put("a", "'x'"), matchConditions=[{"name": "never", "expression": "has(object.data.no)"}])
    cluster.add_policy(
        "b", put("b", "'x'"), binding={"matchResources": {"objectSelector": {"matchLabels": {"l": "x"}}}}
    )
    cluster.add_policy("c", put("c", "'x'"), matchConstraints={"resourceRules": [{**RULE, "resources": ["secrets"]}]})
    excluded = {"resourceRules": [RULE], "excludeResourceRules": [{**RULE, "resources": ["configmaps"]}]}
    cluster.add_policy("d", put("d", "'x'"), matchConstraints=excluded)
    cluster.add_policy("e", put("e", "'x'"), binding={"matchResources": {"resourceRules": [RULE]}})
    selector = {"namespaceSelector": {"matchLabels": {"env": "production"}}}
    cluster.add_policy("f", put("f", "'x'"), matchConstraints={"resourceRules": [RULE], **selector})

    assert await admit() == {"e": "x"}


@pytest.mark.parametrize(
    "plural",
    [
        f"{kind}{item}"
        for kind in ("mutating", "validating")
        for item in ("admissionpolicies", "admissionpolicybindings", "webhookconfigurations")
    ],
)
async def test_configurations_of_admission_are_exempt(cluster, admit, plural):
    cluster.add_policy("a", put("a", "'x'"))

    assert await admit(resource=REGISTRY.find(GROUP, "v1", plural)) == {}


async def test_namespace_is_null_for_resources_without_one(cluster, admit):
    cluster.add_policy("a", put("a", "namespaceObject.metadata.labels.env"), failurePolicy="Ignore")
    cluster.add_policy(
        "b", "namespaceObject == null ? [JSONPatch{op: 'add', path: '/metadata/labels', value: {'a': 'b'}}] : []"
    )
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}

    await admit(node, resource=NODES)

    assert await admit() == {"a": "test"}
    assert node["metadata"]["labels"] == {"a": "b"}


async def test_authorization_checks_are_decided_before_the_mutation(cluster, admit):
    check = "authorizer.group('').resource('pods').check('{}').allowed() ? 'yes' : 'no'"
    cluster.add_policy("a", put("get", check.format("get")), put("list", check.format("list")))

    assert await admit() == {"get": "yes", "list": "no"}


@pytest.mark.parametrize(("policy", "fails"), [({}, True), ({"failurePolicy": "Ignore"}, False)])
@pytest.mark.parametrize(
    "expression",
    [
        put("a", "object.data.missing"),
        "[JSONPatch{op: 'remove', path: '/none'}]",
        put("a", "1"),
        "[JSONPatch{op: 'replace', path: '', value: [1]}]",
    ],
    ids=["evaluation", "patch", "type", "list"],
)
async def test_failure_follows_the_failure_policy(cluster, admit, expression, policy, fails):
    cluster.add_policy("a", put("before", "'x'"), expression, **policy)
    cluster.add_policy("b", put("b", "'x'"))

    if not fails:
        assert await admit() == {"before": "x", "b": "x"}
        return
    with pytest.raises(ApiError, match="policy 'a' with binding 'a' denied request") as caught:
        await admit()
    assert (caught.value.code, caught.value.reason) == (422, "Invalid")


@pytest.mark.parametrize(
    ("policy", "action", "result"),
    [
        ({}, "Deny", ApiError),
        ({"failurePolicy": "Ignore"}, "Deny", {}),
        ({}, "Allow", {}),
    ],
)
async def test_binding_without_parameters_follows_its_action(cluster, admit, policy, action, result):
    kind = {"paramKind": {"apiVersion": "v1", "kind": "Secret"}}
    reference = {"paramRef": {"name": "absent", "parameterNotFoundAction": action}}
    cluster.add_policy("a", put("a", "params.data.a"), binding=reference, **kind, **policy)

    if result is ApiError:
        with pytest.raises(ApiError, match="no params found for policy binding with `Deny`"):
            await admit()
    else:
        assert await admit() == result


@pytest.mark.parametrize(
    ("binding", "policy"),
    [({}, {"paramKind": {"apiVersion": "v1", "kind": "Secret"}}), ({"paramRef": {"name": "absent"}}, {})],
)
async def test_parameters_are_null_without_a_kind_or_a_reference(cluster, admit, binding, policy):
    cluster.add_policy("a", put("a", "params == null ? 'none' : 'some'"), binding=binding, **policy)

    assert await admit() == {"a": "none"}


async def test_each_selected_parameter_object_is_applied(cluster, admit):
    for name, team in (("one", "blue"), ("two", "blue"), ("three", "red")):
        cluster.add("core/secrets", name, labels={"team": team})
    reference = {"selector": {"matchLabels": {"team": "blue"}}, "parameterNotFoundAction": "Deny"}
    kind = {"paramKind": {"apiVersion": "v1", "kind": "Secret"}}
    cluster.add_policy(
        "a",
        "[JSONPatch{op: 'add', path: '/data/' + params.metadata.name, value: 'x'}]",
        binding={"paramRef": reference},
        **kind,
    )

    assert await admit() == {"one": "x", "two": "x"}


class Change(AdmissionPlugin):
    """Changes the object once in each pass, after the policies."""

    name = "Change"
    order = 4000
    operations = ("CREATE",)

    async def admit(self, call: Any) -> None:
        call.new["data"]["passes"] = call.new["data"].get("passes", "") + "x"


@pytest.mark.parametrize(("reinvocation", "times"), [("IfNeeded", "1+"), ("Never", "1")])
async def test_policy_is_applied_again_if_others_changed_the_object_since(cluster, admit, reinvocation, times):
    cluster.add_policy("a", count(), reinvocationPolicy=reinvocation)

    assert await admit(None, Change()) == {"count": times, "passes": "xx"}


async def test_policy_is_not_applied_again_to_its_own_result(cluster, admit):
    cluster.add_policy("a", count(), reinvocationPolicy="IfNeeded")

    assert await admit() == {"count": "1"}


async def test_plugins_are_called_once_if_no_policy_changed_the_object(cluster, admit):
    cluster.add_policy("a", "[]", reinvocationPolicy="IfNeeded")

    assert await admit(None, Change()) == {"passes": "x"}


async def test_stored_policies_are_compiled_again_only_if_they_change(cluster, admit, call):
    async def decide(user, info):
        return True, ""

    plugin = MutatingAdmissionPolicy(cluster, REGISTRY, decide, Identity())
    results = []
    for name in ("a", "b"):
        cluster.objects = {}
        cluster.add_policy("p", put(name, "'x'"))
        obj = config_map()
        await plugin.admit(call(obj, resource=MAPS))
        results.append(obj["data"])

    assert results == [{"own": "x", "a": "x"}, {"own": "x", "b": "x"}]


async def test_result_has_the_defaults_of_its_kind(cluster, admit):
    added = "{'name': 'b', 'image': 'i'}"
    cluster.add_policy("a", f"[JSONPatch{{op: 'add', path: '/spec/containers/-', value: {added}}}]")
    container = {"name": "c", "image": "i"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}}

    await admit(pod, resource=PODS)

    assert pod["spec"]["containers"][1]["terminationMessagePath"] == "/dev/termination-log"


async def test_policy_for_another_version_sees_the_object_in_it(cluster, admit):
    kind = {"apiGroups": ["autoscaling"], "resources": ["horizontalpodautoscalers"]}
    rules = {"matchPolicy": "Equivalent", "resourceRules": [{**RULE, **kind, "apiVersions": ["v2"]}]}
    expression = "[JSONPatch{op: 'add', path: '/spec/minReplicas', value: size(object.spec.metrics) + 1}]"
    cluster.add_policy("a", expression, matchConstraints=rules)
    spec = {"maxReplicas": 3, "scaleTargetRef": {"kind": "D", "name": "d"}, "targetCPUUtilizationPercentage": 50}
    obj = {"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "h"}, "spec": spec}

    await admit(obj, resource=REGISTRY.find("autoscaling", "v1", "horizontalpodautoscalers"))

    assert (obj["apiVersion"], obj["kind"]) == ("autoscaling/v1", "HorizontalPodAutoscaler")
    assert obj["spec"] == {**spec, "minReplicas": 2}


async def test_configurations_are_merged_into_objects(cluster, admit):
    labeled = "Object{metadata: Object.metadata{labels: {'a': 'b'}}}"
    cluster.add_configured("a", "Object{data: {'a': 'x'}}", labeled)
    obj = config_map()

    assert await admit(obj) == {"a": "x"}
    assert obj["metadata"]["labels"] == {"a": "b"}


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("Object{spec: Object.spec{tolerations: [{'key': 'k'}]}}", "structs: .spec.tolerations"),
        (
            "Object{spec: Object.spec{containers: [Object.spec.containers{name: 'c', args: ['x']}]}}",
            "may not mutate atomic arrays, maps or structs: .spec.containers[].args",
        ),
        ("Object{spec: Object.spec{nodeSelector: {'a': 'b'}}}", "structs: .spec.nodeSelector"),
        ("Object{spec: Object.spec{containers: [Object.spec.containers{name: 'c', image: 'j'}]}}", ""),
    ],
)
async def test_configurations_do_not_replace_atomic_fields(cluster, admit, expression, problem):
    cluster.add_configured("a", expression)
    spec = {"containers": [{"name": "c", "image": "i"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    found = ""

    try:
        await admit(pod, resource=PODS)
    except ApiError as error:
        found = error.message

    assert problem in found
    assert bool(found) == bool(problem)
    assert pod["spec"]["containers"][0]["image"] == ("i" if problem else "j")


async def test_configurations_need_a_kind_with_a_schema(cluster, admit):
    cluster.add_configured("a", "Object{}")
    unknown = Resource("example.com", "v1", "Widget", "widgets")

    with pytest.raises(ApiError, match="must evaluate to an object of a kind with a schema"):
        await admit(resource=unknown)
    cluster.add_configured("a", "null")
    with pytest.raises(ApiError, match="policy 'a' with binding 'a' denied request"):
        await admit()


async def test_policies_are_not_applied_if_they_are_not_served(cluster, call):
    plugin = MutatingAdmissionPolicy(cluster, build_registry(parse([])), None, Identity())

    assert not plugin.concerns(MAPS, "CREATE", "")
