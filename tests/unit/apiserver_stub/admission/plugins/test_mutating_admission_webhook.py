"""Tests for the MutatingAdmissionWebhook admission plugin: patches and reinvocation."""

from __future__ import annotations

import json
from typing import Any

import pytest

from apiserver_stub.admission import AdmissionPlugin
from apiserver_stub.admission.plugins.mutating_admission_webhook import MutatingAdmissionWebhook
from apiserver_stub.apimachinery.status import ApiError
from tests.unit.apiserver_stub.admission.conftest import make_call
from tests.unit.apiserver_stub.admission.webhooks import MAPS, REGISTRY, RULE, Webhooks, config_map, patched

PODS = REGISTRY.find("", "v1", "pods")


@pytest.fixture
def hooks() -> Webhooks:
    return Webhooks(MutatingAdmissionWebhook)


def pod() -> dict[str, Any]:
    container = {"name": "c", "image": "i"}
    metadata = {"name": "p", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}


def notes(call: Any) -> dict[str, Any]:
    """Return whether each webhook changed the object, by pass and position."""
    found = {key.partition("/")[2]: json.loads(text) for key, text in call.request.annotations.items()}
    return {key: (note["webhook"], note["mutated"]) for key, note in found.items()}


@pytest.mark.row("admission.MutatingAdmissionWebhook")
async def test_patches_are_applied_in_sequence(hooks: Webhooks) -> None:
    for name in ("a", "b", "c"):
        hooks.add(name)
    hooks.responses = {"a": patched(("add", "/data/a", "1")), "c": patched(("add", "/data/own", "x"))}

    call = await hooks.send()

    assert call.new == {**config_map(), "data": {"own": "x", "a": "1"}}
    assert hooks.reviews[1][1]["request"]["object"]["data"] == {"own": "x", "a": "1"}
    expected = {"round_0_index_0": ("a", True), "round_0_index_1": ("b", False), "round_0_index_2": ("c", False)}
    assert notes(call) == expected
    assert call.reinvoke


@pytest.mark.parametrize(
    ("patch", "problem"),
    [
        (patched(("remove", "/none", None)), 'the patch of webhook "a" cannot be applied: '),
        (patched(("replace", "", [1])), 'the patch of webhook "a" does not result in an object'),
        (patched(("add", "/data/a", 1)), 'the patch of webhook "a" cannot be applied: '),
    ],
    ids=["missing path", "list", "type"],
)
async def test_invalid_patch_rejects_the_request(hooks: Webhooks, patch: Any, problem: str) -> None:
    hooks.add("a", failurePolicy="Ignore")
    hooks.responses["a"] = patch
    obj = config_map(own="x")

    found = await hooks.problem(obj)

    assert found.startswith("500 ")
    assert problem in found
    assert obj == config_map(own="x")
    (line,) = hooks.metric("apiserver_admission_webhook_rejection_count{")
    assert 'error_type="apiserver_internal_error"' in line
    assert 'rejection_code="0"' in line


async def test_kind_of_the_object_is_kept(hooks: Webhooks) -> None:
    hooks.add("a")
    hooks.responses["a"] = patched(("replace", "/kind", "Secret"), ("remove", "/apiVersion", None))

    assert (await hooks.send()).new == config_map(own="x")


@pytest.mark.parametrize(("subresource", "path"), [("", "/dev/termination-log"), ("ephemeralcontainers", None)])
async def test_patched_object_has_defaults(hooks: Webhooks, subresource: str, path: str | None) -> None:
    hooks.add("a")
    hooks.responses["a"] = patched(("add", "/spec/containers/-", {"name": "d", "image": "i"}))

    call = await hooks.send(pod(), resource=PODS, subresource=subresource)

    assert call.obj["spec"]["containers"][1].get("terminationMessagePath") == path


async def test_patch_of_a_deletion_rejects_it(hooks: Webhooks) -> None:
    hooks.add("a", failurePolicy="Ignore")
    hooks.responses["a"] = patched(("add", "/data/a", "1"))
    call = make_call(None, config_map(), operation="DELETE", resource=MAPS)

    with pytest.raises(ApiError) as caught:
        await hooks.plugin.admit(call)

    text = 'admission webhook "a" attempted to modify the object, which is not supported for this operation'
    assert (caught.value.code, str(caught.value)) == (500, f"Internal error occurred: {text}")


async def test_empty_patch_of_a_deletion_is_accepted(hooks: Webhooks) -> None:
    hooks.add("a")
    hooks.responses["a"] = patched()
    call = make_call(None, config_map(), operation="DELETE", resource=MAPS)

    await hooks.plugin.admit(call)

    assert (call.new, call.reinvoke, notes(call)) == (None, False, {"round_0_index_0": ("a", False)})


async def test_patches_are_annotations_of_detailed_audit_events(hooks: Webhooks) -> None:
    for name in ("a", "b", "c"):
        hooks.add(name)
    hooks.responses = {"b": patched(("add", "/data/own", "x")), "c": patched()}

    call = await hooks.send()

    (key, text), *others = call.request.content_annotations.items()
    assert (key, others) == ("patch.webhook.admission.k8s.io/round_0_index_1", [])
    patch = [{"op": "add", "path": "/data/own", "value": "x"}]
    assert json.loads(text) == {"configuration": "of-b", "webhook": "b", "patch": patch, "patchType": "JSONPatch"}


async def test_patch_of_another_version_is_converted_back(hooks: Webhooks) -> None:
    rule = {**RULE, "apiGroups": ["autoscaling"], "apiVersions": ["v2"], "resources": ["horizontalpodautoscalers"]}
    hooks.add("a", rules=[rule], matchPolicy="Equivalent")
    hooks.responses["a"] = patched(("add", "/spec/minReplicas", 2))
    spec = {"maxReplicas": 3, "scaleTargetRef": {"kind": "D", "name": "d"}, "targetCPUUtilizationPercentage": 50}
    obj = {"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "h"}, "spec": spec}

    call = await hooks.send(obj, resource=REGISTRY.find("autoscaling", "v1", "horizontalpodautoscalers"))

    assert (call.obj["apiVersion"], call.obj["kind"]) == ("autoscaling/v1", "HorizontalPodAutoscaler")
    assert call.obj["spec"] == {**spec, "minReplicas": 2}


class Change(AdmissionPlugin):
    """Changes the object in each pass, after the webhooks."""

    async def admit(self, call: Any) -> None:
        call.new["data"]["passes"] = call.new["data"].get("passes", "") + "x"


@pytest.mark.parametrize(("policy", "calls"), [("IfNeeded", ["a", "b", "a"]), ("Never", ["a", "b"])])
async def test_webhook_is_called_again_if_others_changed_the_object(
    hooks: Webhooks, policy: str, calls: list[str]
) -> None:
    hooks.add("a", reinvocationPolicy=policy)
    hooks.add("b")
    hooks.responses["b"] = patched(("add", "/metadata/labels", {"a": "b"}))

    call = await hooks.send(None, Change())

    assert hooks.called == calls
    assert ("round_1_index_0" in notes(call)) == (len(calls) == 3)


async def test_webhook_is_not_called_again_for_its_own_change(hooks: Webhooks) -> None:
    hooks.add("a", reinvocationPolicy="IfNeeded")
    hooks.responses["a"] = patched(("add", "/data/a", "1"))

    call = await hooks.send()

    assert (hooks.called, notes(call)) == (["a"], {"round_0_index_0": ("a", True)})


async def test_webhook_that_failed_open_is_called_again_after_a_change(hooks: Webhooks) -> None:
    turns = ("round_0_index_0", "round_1_index_0")
    hooks.add("a", reinvocationPolicy="IfNeeded", failurePolicy="Ignore")
    hooks.add("b")
    hooks.responses = {"a": "refused", "b": patched(("add", "/data/b", "1"))}

    call = await hooks.send(None, Change())

    assert hooks.called == ["a", "b", "a"]
    failed = [call.request.annotations.pop(f"failed-open.mutation.webhook.admission.k8s.io/{turn}") for turn in turns]
    assert failed == ["a", "a"]
    assert notes(call) == {**dict.fromkeys(turns, ("a", False)), "round_0_index_1": ("b", True)}


async def test_position_in_annotations_counts_webhooks_that_are_not_called(hooks: Webhooks) -> None:
    hooks.add("a", objectSelector={"matchLabels": {"none": ""}})
    hooks.add("b")

    assert notes(await hooks.send()) == {"round_0_index_1": ("b", False)}


async def test_denial_is_annotated(hooks: Webhooks) -> None:
    hooks.add("a")
    hooks.responses["a"] = {"allowed": False}
    call = make_call(config_map(), resource=MAPS)

    with pytest.raises(ApiError):
        await hooks.plugin.admit(call)

    assert notes(call) == {"round_0_index_0": ("a", False)}
