"""Tests for the selection of admission webhooks, their calls and failure policies."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.admission import AdmissionChain
from apiserver_stub.admission.plugins.mutating_admission_webhook import MutatingAdmissionWebhook
from apiserver_stub.admission.plugins.validating_admission_webhook import ValidatingAdmissionWebhook
from apiserver_stub.apimachinery.status import ApiError
from tests.unit.apiserver_stub.admission.conftest import make_call
from tests.unit.apiserver_stub.admission.webhooks import (
    GROUP,
    MAPS,
    REGISTRY,
    RULE,
    Webhooks,
    config_map,
    configuration,
)

NODES = REGISTRY.find("", "v1", "nodes")
CONFIGURATIONS = REGISTRY.find(GROUP, "v1", "validatingwebhookconfigurations")


@pytest.fixture(params=[MutatingAdmissionWebhook, ValidatingAdmissionWebhook], ids=["mutating", "validating"])
def hooks(request: pytest.FixtureRequest) -> Webhooks:
    return Webhooks(request.param)


@pytest.fixture
def validating() -> Webhooks:
    return Webhooks(ValidatingAdmissionWebhook)


def condition(text: str) -> list[dict[str, str]]:
    return [{"name": "c", "expression": text}]


async def test_matching_webhooks_are_called_in_the_order_of_configurations(hooks: Webhooks) -> None:
    for name in ("b", "a"):
        hooks.add(name)
    hooks.add("c", rules=[{**RULE, "resources": ["secrets"]}])
    hooks.add("d", namespaceSelector={"matchLabels": {"env": "production"}})
    hooks.add("e", namespaceSelector={"matchLabels": {"env": "test"}})
    hooks.add("f", objectSelector={"matchLabels": {"app": "web"}})
    hooks.add("g", rules=None)

    await hooks.send()

    assert hooks.called == ["a", "b", "e"]


async def test_namespace_selectors_apply_only_to_namespaced_resources(hooks: Webhooks) -> None:
    hooks.add("a", namespaceSelector={"matchLabels": {"env": "production"}})

    await hooks.send({"metadata": {"name": "n"}}, resource=NODES)

    assert hooks.called == ["a"]


@pytest.mark.parametrize(
    ("expressions", "policy", "is_called", "problem"),
    [
        (condition("object.data.own == 'x'"), "Fail", True, ""),
        (condition("object.data.own == 'y'"), "Fail", False, ""),
        ([*condition("true"), *condition("false")], "Fail", False, ""),
        (condition("oldObject == null && request.operation == 'CREATE'"), "Fail", True, ""),
        (condition("authorizer.group('').resource('pods').check('get').allowed()"), "Fail", True, ""),
        (condition("authorizer.group('').resource('pods').check('list').allowed()"), "Fail", False, ""),
        (condition("object.data.none == 'x'"), "Fail", False, "failed to evaluate a match condition of webhook"),
        (condition("object.data.none == 'x'"), "Ignore", False, ""),
    ],
)
async def test_match_conditions_exclude_requests(
    hooks: Webhooks, expressions: Any, policy: str, problem: str, *, is_called: bool
) -> None:
    hooks.add("a", matchConditions=expressions, failurePolicy=policy)

    found = await hooks.problem()

    assert (hooks.called == ["a"]) is is_called
    assert problem in found
    assert bool(found) == bool(problem)


@pytest.mark.parametrize(
    ("effects", "dry_run", "is_called"),
    [
        ("None", True, True),
        ("NoneOnDryRun", True, True),
        ("Some", True, False),
        (None, True, False),
        ("Some", False, True),
    ],
)
async def test_dry_run_calls_only_webhooks_without_side_effects(
    hooks: Webhooks, effects: Any, *, dry_run: bool, is_called: bool
) -> None:
    hooks.add("a", sideEffects=effects, failurePolicy="Ignore")

    found = await hooks.problem(dry_run=dry_run)

    assert found == ("" if is_called else '400 admission webhook "a" does not support dry run')
    assert bool(hooks.called) is is_called


@pytest.mark.parametrize(
    ("given", "expected"),
    [(["v1"], "v1"), (["v1beta1", "v1"], "v1beta1"), (["v2", "v1beta1"], "v1beta1"), (["v2"], "v1"), (None, "v1")],
)
async def test_first_supported_version_of_reviews_is_sent(hooks: Webhooks, given: Any, expected: str) -> None:
    hooks.add("a", admissionReviewVersions=given)

    await hooks.send()

    assert hooks.reviews[0][1]["apiVersion"] == f"admission.k8s.io/{expected}"


@pytest.mark.parametrize(("given", "seconds"), [(None, 10), (3, 3)])
async def test_timeout_is_that_of_the_webhook(hooks: Webhooks, given: Any, seconds: float) -> None:
    hooks.add("a", timeoutSeconds=given)

    await hooks.send()

    assert hooks.reviews[0][2] == seconds


@pytest.mark.parametrize("response", ["connection refused", {"uid": "other"}], ids=["no response", "invalid response"])
async def test_failed_call_follows_the_failure_policy(hooks: Webhooks, response: Any) -> None:
    hooks.add("a", failurePolicy="Ignore")
    hooks.responses["a"] = response
    assert await hooks.problem() == ""
    assert hooks.metric("apiserver_admission_webhook_rejection_count{") == []
    assert [line.partition(" ")[2] for line in hooks.metric("apiserver_admission_webhook_fail_open_count{")] == ["1"]

    hooks.add("a", failurePolicy="Fail")
    found = await hooks.problem()

    assert found.startswith('500 Internal error occurred: failed calling webhook "a": failed to call webhook: ')
    (line,) = hooks.metric("apiserver_admission_webhook_rejection_count{")
    assert 'error_type="calling_webhook_error"' in line


@pytest.mark.parametrize(
    ("plugin", "part"),
    [(MutatingAdmissionWebhook, "mutating-webhook"), (ValidatingAdmissionWebhook, "validating-webhook")],
)
async def test_duration_of_calls_is_measured(plugin: Any, part: str) -> None:
    webhooks = Webhooks(plugin)
    assert (await webhooks.send()).request.durations == {}
    webhooks.add("a")

    assert list((await webhooks.send()).request.durations) == [part]


async def test_call_that_failed_open_is_in_the_audit_annotations(validating: Webhooks) -> None:
    selector = {"matchLabels": {"none": ""}}
    for name, spec in (("a", {}), ("b", {"failurePolicy": "Ignore"}), ("0", {"objectSelector": selector})):
        validating.add(name, **spec)
    validating.responses["b"] = "refused"

    call = await validating.send()

    assert call.request.annotations == {"failed-open.validating.webhook.admission.k8s.io/round_0_index_1": "b"}


async def test_denied_request_is_annotated_with_calls_that_failed_open(validating: Webhooks) -> None:
    validating.add("a")
    validating.add("b", failurePolicy="Ignore")
    validating.responses = {"a": {"allowed": False}, "b": "refused"}
    call = make_call(config_map(), resource=MAPS)

    with pytest.raises(ApiError, match="denied the request"):
        await validating.plugin.validate(call)

    assert call.request.annotations == {"failed-open.validating.webhook.admission.k8s.io/round_0_index_1": "b"}


async def test_denial_is_reported_with_annotations_and_warnings(hooks: Webhooks) -> None:
    hooks.add("a", failurePolicy="Ignore")
    hooks.responses["a"] = {"allowed": False, "auditAnnotations": {"k": "v"}, "warnings": ["w"]}
    hooks.responses["a"]["status"] = {"code": 403, "message": "no"}

    assert await hooks.problem() == '403 admission webhook "a" denied the request: no'
    (line,) = hooks.metric("apiserver_admission_webhook_rejection_count{")
    assert ('error_type="no_error"' in line, 'rejection_code="403"' in line) == (True, True)

    hooks.responses["a"]["allowed"] = True
    call = await hooks.send()
    assert (call.request.annotations["a/k"], call.request.warnings) == ("v", ["w"])


async def test_changed_configurations_take_effect(hooks: Webhooks) -> None:
    await hooks.send()
    hooks.add("a")
    await hooks.send()
    hooks.add("a", rules=[])
    await hooks.send()

    assert hooks.called == ["a"]


async def test_configurations_are_exempt_except_from_manifests(hooks: Webhooks) -> None:
    class Manifests:
        def every(self, plural: str) -> list[Any]:
            assert plural == hooks.plugin.plural
            return static

    static = [configuration("static")]
    hooks.add("stored")
    await hooks.send({"metadata": {"name": "x"}}, resource=CONFIGURATIONS)
    assert hooks.called == []

    hooks.use_manifests(Manifests())
    await hooks.send({"metadata": {"name": "x"}}, resource=CONFIGURATIONS)
    assert hooks.called == ["static"]
    await hooks.send()
    assert hooks.called == ["static", "static", "stored"]

    static = [configuration("changed")]
    await hooks.send()
    assert hooks.called[3:] == ["changed", "stored"]


async def test_webhook_for_another_version_gets_the_object_in_it(hooks: Webhooks) -> None:
    rule = {**RULE, "apiGroups": ["autoscaling"], "apiVersions": ["v2"], "resources": ["horizontalpodautoscalers"]}
    hooks.add("a", rules=[rule], matchPolicy="Equivalent", matchConditions=condition("has(object.spec.metrics)"))
    hooks.add("b", rules=[rule], matchPolicy="Exact")
    spec = {"maxReplicas": 3, "scaleTargetRef": {"kind": "D", "name": "d"}, "targetCPUUtilizationPercentage": 50}
    obj = {"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "h"}, "spec": spec}

    await hooks.send(obj, resource=REGISTRY.find("autoscaling", "v1", "horizontalpodautoscalers"))

    assert hooks.called == ["a"]
    sent = hooks.request
    assert (sent["kind"]["version"], sent["requestKind"]["version"]) == ("v2", "v1")
    assert (sent["object"]["apiVersion"], "metrics" in sent["object"]["spec"]) == ("autoscaling/v2", True)
    assert sent["oldObject"] is None


async def test_deleted_object_is_sent_as_the_old_one(hooks: Webhooks) -> None:
    hooks.add("a", objectSelector={"matchLabels": {"app": "web"}}, matchConditions=condition("object == null"))
    old = config_map()
    old["metadata"]["labels"] = {"app": "web"}

    call = make_call(None, old, operation="DELETE", resource=MAPS)
    await AdmissionChain([hooks.plugin]).check(call)

    assert (hooks.request["object"], hooks.request["oldObject"]) == (None, old)


async def test_metrics_of_removed_webhooks_are_dropped() -> None:
    hooks, others = Webhooks(MutatingAdmissionWebhook), Webhooks(ValidatingAdmissionWebhook)
    others.metrics = hooks.metrics
    others.plugin = others._new(ValidatingAdmissionWebhook, None)
    for each in (hooks, others):
        each.add("a")
        each.add("b")
        await each.send()
    hooks.store.remove(f"{GROUP}/mutatingwebhookconfigurations", "of-a")

    await hooks.send()

    lines = sorted(
        line.partition(",operation")[0] for line in hooks.metric("apiserver_admission_webhook_request_total{")
    )
    assert [line.partition("{")[2] for line in lines] == [
        'name="a",type="validating"',
        'name="b",type="admit"',
        'name="b",type="validating"',
    ]
