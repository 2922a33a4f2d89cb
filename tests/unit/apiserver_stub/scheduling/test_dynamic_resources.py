"""Tests for the filter by resource claims, and for the plans to allocate and reserve them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from apiserver_stub.scheduling.decision import PodResources, decide
from apiserver_stub.scheduling.device_allocation import AllocationFeatures
from apiserver_stub.scheduling.device_pools import DeviceId
from apiserver_stub.scheduling.dynamic_resources import DevicePlan, DeviceState, PodDevices
from apiserver_stub.scheduling.model import PodInfo, read_pod
from tests.unit.apiserver_stub.scheduling.cluster import make_node, make_pod, make_state

DRIVER, GPU, ANNOTATION = "gpu.example.com", "example.com/gpu", "resource.kubernetes.io/extended-resource-claim"
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
OWNER = {"controller": True, "uid": "u"}
RESERVED, OTHER = {"uid": "u"}, {"uid": "other"}


def result(device: str = "a", **fields: Any) -> dict[str, Any]:
    return {"request": "r", "driver": DRIVER, "pool": "n1", "device": device, **fields}


def claim(
    name: str = "c", *reserved: Any, results: Any = None, node: str = "", metadata: Any = None, **status: Any
) -> dict[str, Any]:
    """Return a claim for one device, allocated if it has *results*, on *node* only."""
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    selector = {"nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]}} if node else {}
    allocation = {"allocation": {"devices": {"results": results}, **selector}} if results is not None else {}
    return {
        "metadata": {"name": name, "namespace": "default", **(metadata or {})},
        "spec": {"devices": {"requests": [request]}},
        "status": {**allocation, "reservedFor": list(reserved), **status},
    }


def extended(*reserved: Any, uid: str = "u", marked: bool = True, **fields: Any) -> dict[str, Any]:
    """Return the claim for the extended resources of a pod."""
    annotations = {ANNOTATION: "true"} if marked else {}
    metadata = {"annotations": annotations, "ownerReferences": [{**OWNER, "uid": uid}]}
    return claim("extended", *reserved, metadata=metadata, **fields)


def state(*claims: Any, devices: str = "ab", **features: bool) -> DeviceState:
    """Return a cluster whose node n1 has *devices*."""
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "pool": pool, "nodeName": "n1", "devices": [{"name": name} for name in devices]}
    return DeviceState(
        "resource.k8s.io",
        "deviceclass.resource.kubernetes.io/",
        ANNOTATION,
        AllocationFeatures(**features),
        {"gpu": {"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": GPU}}},
        {"s": {"metadata": {"name": "s"}, "spec": spec}},
        {f"default/{item['metadata']['name']}": item for item in claims},
    )


def pod(*claims: str, template: bool = False, created: bool = True, **requests: str) -> PodInfo:
    """Return a pod with *claims*, which are made from templates if *template*."""
    source = "resourceClaimTemplateName" if template else "resourceClaimName"
    entries = [{"name": f"e-{name}", source: name} for name in claims]
    found = make_pod(requests={name.replace("_", "/"): amount for name, amount in requests.items()})
    found["metadata"]["uid"] = "u"
    found["spec"]["resourceClaims"] = entries
    if created:
        found["status"] = {
            "resourceClaimStatuses": [{"name": f"e-{name}", "resourceClaimName": name} for name in claims]
        }
    return read_pod(found)


def reason(devices: PodDevices, node: str = "n1", **spec: Any) -> str:
    """Return why a node cannot serve the claims, empty if it can."""
    rejection = devices.check(make_node(node, **spec))
    return rejection.reasons[0] if rejection else ""


@pytest.mark.parametrize(
    ("stored", "requesting", "problem"),
    [
        ([claim()], pod("c"), ""),
        ([], pod(), ""),
        ([], pod("c"), 'resourceclaim.resource.k8s.io "c" not found'),
        ([claim(metadata={"deletionTimestamp": "t"})], pod("c"), 'resourceclaim "c" is being deleted'),
        ([], pod("c", template=True, created=False), 'pod "default/p": ResourceClaim not created yet'),
        ([claim(metadata={"ownerReferences": [OWNER]})], pod("c", template=True), ""),
        ([claim()], pod("c", template=True), "ResourceClaim default/c was not created for pod default/p (pod is not"),
        ([claim("c", OTHER, results=[])], pod("c"), ""),
        ([claim("c", *[OTHER] * 256, results=[])], pod("c"), "resourceclaim in use"),
        ([claim("c", *[OTHER] * 256, RESERVED, results=[])], pod("c"), ""),
        ([], pod("", template=True), ""),
    ],
)
def test_claims_must_be_available_to_the_pod(stored: Any, requesting: PodInfo, problem: str) -> None:
    conflict = PodDevices(state(*stored), requesting).conflict

    found = conflict.reasons[0] if conflict else ""
    assert problem in found
    assert bool(found) == bool(problem)


@pytest.mark.parametrize(
    ("stored", "devices", "node", "problem"),
    [
        (claim(), "a", "n1", ""),
        (claim(), "", "n1", "cannot allocate all claims"),
        (claim(), "a", "n2", "cannot allocate all claims"),
        (claim(results=[result()]), "", "n2", ""),
        (claim(results=[result()], node="n1"), "", "n1", ""),
        (claim(results=[result()], node="n1"), "", "n2", "resourceclaim not available on the node"),
    ],
)
def test_claims_need_devices_of_the_node(stored: Any, devices: str, node: str, problem: str) -> None:
    assert reason(PodDevices(state(stored, devices=devices), pod("c")), node) == problem


def test_plan_allocates_and_reserves_claims() -> None:
    pending, allocated, reserved = claim("a"), claim("b", OTHER, results=[result()]), claim("c", RESERVED, results=[])
    devices = PodDevices(state(pending, allocated, reserved), pod("a", "b", "c"))

    assert reason(devices) == ""

    plan = devices.plan("n1")
    ((planned, allocation),) = plan.allocate
    assert planned is pending
    assert [item["device"] for item in allocation["devices"]["results"]] == ["b"]
    assert (plan.reserve, plan.create, plan.existing) == ([allocated], None, "")
    assert devices.plan("other") == DevicePlan()


def test_class_that_is_missing_rejects_the_node() -> None:
    found = state(claim())
    found.classes.clear()

    assert "gpu" in reason(PodDevices(found, pod("c")))


@pytest.mark.parametrize(
    ("results", "shares", "dedicated", "shared"),
    [
        ([result()], True, ["a"], {}),
        ([result(adminAccess=True)], True, [], {}),
        ([result(shareID="s", consumedCapacity={"m": "1"})], True, [], {"m": 1}),
        ([result(shareID="s")] * 2, True, [], {}),
        ([result(shareID="s", consumedCapacity={"m": "1"})] * 2, True, [], {"m": 2}),
        ([result(shareID="s", consumedCapacity={"m": "1"})], False, ["a"], {}),
        (None, True, [], {}),
    ],
)
def test_devices_of_allocated_claims_are_in_use(results: Any, dedicated: Any, shared: Any, *, shares: bool) -> None:
    used = state(claim(results=results), consumable_capacity=shares).devices_in_use()

    assert used.dedicated == {DeviceId(DRIVER, "n1", name) for name in dedicated}
    amounts = used.shared.get(DeviceId(DRIVER, "n1", "a"), {})
    assert amounts == {name: count * 10**9 for name, count in shared.items()}


def test_result_without_an_identity_is_of_no_device() -> None:
    assert state(claim(results=[{}])).devices_in_use().dedicated == {DeviceId("", "", "")}


REQUESTING = pod(**{"example.com_gpu": "1", "cpu": "1"})


@pytest.mark.parametrize(
    ("allocatable", "backed"), [({}, True), ({GPU: "0"}, True), ({GPU: "1"}, False)], ids=["none", "zero", "own"]
)
def test_extended_resources_are_backed_where_the_node_has_none(allocatable: Any, *, backed: bool) -> None:
    devices, node = PodDevices(state(), REQUESTING), make_node("n1", allocatable=allocatable)

    assert reason(devices, allocatable=allocatable) == ""

    plan, left = devices.plan("n1"), devices.without_backed(REQUESTING, node)
    assert (plan.create is not None, GPU in left.requests, "cpu" in left.requests) == (backed, not backed, True)
    if plan.create is not None:
        spec, allocation = plan.create
        request = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
        assert [item["exactly"] for item in spec["devices"]["requests"]] == [request]
        assert [item["device"] for item in allocation["devices"]["results"]] == ["a"]
        assert plan.extended_status("x")["resourceClaimName"] == "x"


def test_claim_for_extended_resources_is_allocated_with_the_others() -> None:
    devices = PodDevices(state(claim()), replace(REQUESTING, device_claims=pod("c").device_claims))

    assert reason(devices) == ""

    plan = devices.plan("n1")
    assert (len(plan.allocate), plan.create is not None) == (1, True)
    assert reason(PodDevices(state(claim(), devices="a"), replace(REQUESTING, device_claims=pod("c").device_claims)))


def test_resources_without_a_class_are_not_backed() -> None:
    other = pod(**{"example.com_other": "1"})
    found = state()
    found.class_resource = ""

    for devices in (PodDevices(state(), other), PodDevices(found, REQUESTING)):
        assert reason(devices) == ""
        assert devices.plan("n1").create is None


@pytest.mark.parametrize(
    ("earlier", "existing", "problem"),
    [
        (extended(results=[result()]), "extended", ""),
        (extended(results=[result()], node="n2"), "", "cannot schedule extended resource claim"),
        (extended(), "", "cannot schedule extended resource claim"),
        (extended(results=[result()], uid="other"), "", ""),
        (extended(results=[result()], marked=False), "", ""),
    ],
)
def test_earlier_claim_for_extended_resources_is_used(earlier: Any, existing: str, problem: str) -> None:
    devices = PodDevices(state(earlier), REQUESTING)

    assert reason(devices) == problem
    assert devices.plan("n1").existing == existing
    assert (devices.plan("n1").create is None) is bool(existing or problem)


def conditioned(name: str = "c", *reserved: Any, status: str = "", **fields: Any) -> dict[str, Any]:
    """Return a claim with a device that becomes ready or fails, as reported by its condition *status*."""
    device = result(bindingConditions=["ready"], bindingFailureConditions=["broken"])
    reported = [{"type": status, "status": "True"}] if status else []
    found = claim(name, *reserved, results=[device], devices=[{**result(), "conditions": reported}], **fields)
    found["status"]["allocation"]["allocationTimestamp"] = "2026-01-01T12:00:00Z"
    return found


@pytest.mark.parametrize(
    ("stored", "enabled", "waits", "failed"),
    [
        (conditioned("c", RESERVED), True, True, False),
        (conditioned("c", RESERVED, status="ready"), True, False, False),
        (conditioned("c", RESERVED, status="broken"), True, False, True),
        (conditioned("c", RESERVED, OTHER, status="broken"), True, False, False),
        (conditioned("c", OTHER, status="broken"), True, False, False),
        (conditioned("c", status="broken"), True, False, False),
        (conditioned("c", RESERVED), False, False, False),
        (claim("c", RESERVED, results=[result()]), True, False, False),
    ],
)
def test_pods_wait_for_binding_conditions(stored: Any, *, enabled: bool, waits: bool, failed: bool) -> None:
    devices = PodDevices(state(stored, binding_conditions=enabled), pod("c"))

    assert devices.waits(NOW) is waits
    assert devices.failed(NOW) == ([stored] if failed else [])


@pytest.mark.parametrize(("requesting", "waits"), [(REQUESTING, True), (pod(), False)])
def test_pods_wait_for_their_extended_resources(requesting: PodInfo, *, waits: bool) -> None:
    metadata = {"annotations": {ANNOTATION: "true"}, "ownerReferences": [OWNER]}
    devices = PodDevices(state(conditioned("extended", RESERVED, metadata=metadata)), requesting)

    assert devices.waits(NOW) is waits
    assert devices.is_extended({"metadata": {"annotations": None}}) is False


@pytest.mark.parametrize(("devices", "problem"), [("a", ""), ("", "cannot allocate all claims")])
def test_decision_includes_the_claims_of_the_pod(devices: str, problem: str) -> None:
    requesting = pod("c")
    resources = PodResources(devices=PodDevices(state(claim(), devices=devices), requesting))

    found = decide(make_state(make_node()), requesting, resources)

    assert bool(found.feasible) is not bool(problem)
    assert problem in found.message
