"""Tests for the allocation of devices: selection, modes, constraints, taints, counters and incomplete pools."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.scheduling import device_allocation
from apiserver_stub.scheduling.device_allocation import AllocationError, AllocationFeatures, Allocator, DevicesInUse
from apiserver_stub.scheduling.device_pools import DeviceId, pools_for

DRIVER, NODE = "gpu.example.com", "n1"


def device(name: str, model: str = "small", **fields: Any) -> dict[str, Any]:
    return {"name": name, "attributes": {"model": {"string": model}}, **fields}


def pool_slice(*devices: dict[str, Any], name: str = "s1", generation: int = 1, count: int = 1, **fields: Any):
    pool = {"name": NODE, "generation": generation, "resourceSliceCount": count}
    spec = {"driver": DRIVER, "pool": pool, "devices": list(devices), "nodeName": NODE} | fields
    return {"metadata": {"name": name}, "spec": spec}


def request(name: str = "one", *selectors: str, **fields: Any) -> dict[str, Any]:
    found = [{"cel": {"expression": text}} for text in selectors]
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "selectors": found, **fields}
    if exactly["allocationMode"] == "ExactCount":
        exactly.setdefault("count", 1)
    return {"name": name, "exactly": exactly}


def claim(*requests: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": "claim"}, "spec": {"devices": {"requests": list(requests), **fields}}}


def allocate(
    slices: list[Any], *claims: Any, in_use: tuple[str, ...] = (), classes: Any = None
) -> list[list[str]] | None:
    """Return the names of the devices of each claim, ``None`` if they are not available."""
    classes = classes or {"gpu": {"metadata": {"name": "gpu"}, "spec": {}}}
    used = DevicesInUse(frozenset(DeviceId(DRIVER, NODE, name) for name in in_use))
    found = Allocator(NODE, pools_for(slices, NODE, {"zone": "a"}), classes, used).allocate(claims)
    return None if found is None else [[item["device"] for item in each["devices"]["results"]] for each in found]


TWO = [pool_slice(device("a"), device("b", "large"))]


@pytest.mark.parametrize(
    ("claims", "devices"),
    [
        ([claim(request())], [["a"]]),
        ([claim(request("one", f'device.attributes["{DRIVER}"].model == "large"'))], [["b"]]),
        ([claim(request(count=2))], [["a", "b"]]),
        ([claim(request(count=3))], None),
        ([claim(request()), claim(request())], [["a"], ["b"]]),
        ([claim(request(allocationMode="All"))], [["a", "b"]]),
        ([claim(request(), request("two", allocationMode="All"))], None),
        ([claim(request("one", "false", allocationMode="All"))], None),
    ],
)
def test_devices_are_allocated_in_order(claims, devices):
    assert allocate(TWO, *claims) == devices


def test_earlier_request_leaves_the_device_that_a_later_one_needs():
    only_small = f'device.attributes["{DRIVER}"].model == "small"'

    assert allocate(TWO, claim(request("any"), request("small", only_small))) == [["b", "a"]]


def test_devices_in_use_are_left_out_except_for_admin_access():
    assert allocate(TWO, claim(request()), in_use=("a",)) == [["b"]]
    assert allocate(TWO, claim(request(allocationMode="All")), in_use=("a",)) is None
    assert allocate(TWO, claim(request(allocationMode="All", adminAccess=True)), in_use=("a", "b")) == [["a", "b"]]


def test_first_available_alternative_is_allocated():
    alternatives = [request("large", "false"), request("small")]
    subrequests = [{"name": item["name"], **item["exactly"]} for item in alternatives]
    found = Allocator(NODE, pools_for(TWO, NODE, {}), {"gpu": {"metadata": {"name": "gpu"}}}, DevicesInUse()).allocate(
        [claim({"name": "one", "firstAvailable": subrequests})]
    )

    assert found is not None
    assert found[0]["devices"]["results"][0] == {"request": "one/small", "driver": DRIVER, "pool": NODE, "device": "a"}


@pytest.mark.parametrize(
    ("constraint", "devices"),
    [
        ({"matchAttribute": f"{DRIVER}/model"}, [["a", "c"]]),
        ({"distinctAttribute": f"{DRIVER}/model"}, [["a", "b"]]),
        ({"matchAttribute": f"{DRIVER}/unknown"}, None),
        ({"matchAttribute": f"{DRIVER}/model", "requests": ["other"]}, [["a", "b"]]),
    ],
)
def test_constraint_selects_devices_together(constraint, devices):
    slices = [pool_slice(device("a"), device("b", "large"), device("c"))]

    assert allocate(slices, claim(request(count=2), constraints=[constraint])) == devices


def test_tainted_device_needs_a_toleration():
    taint = {"key": "broken", "value": "fan", "effect": "NoSchedule"}
    slices = [pool_slice(device("a", taints=[taint]), device("b", taints=[{**taint, "effect": "None"}]))]

    assert allocate(slices, claim(request())) == [["b"]]
    tolerations = [{"key": "broken", "operator": "Equal", "value": "fan", "effect": "NoSchedule"}]
    assert allocate(slices, claim(request(tolerations=tolerations))) == [["a"]]
    assert allocate(slices, claim(request(tolerations=[{"operator": "Exists"}]))) == [["a"]]


def test_capacity_must_suffice():
    slices = [pool_slice(device("a", capacity={"memory": {"value": "1Gi"}}), device("b"))]

    assert allocate(slices, claim(request(capacity={"requests": {"memory": "1Gi"}}))) == [["a"]]
    assert allocate(slices, claim(request(capacity={"requests": {"memory": "2Gi"}}))) is None


def test_partitions_share_the_counters_of_their_device():
    def partition(name, memory):
        consumed = [{"counterSet": "gpu", "counters": {"memory": {"value": memory}}}]
        return device(name, consumesCounters=consumed)

    counters = [{"name": "gpu", "counters": {"memory": {"value": "4Gi"}}}]
    shared = pool_slice(name="s0", count=2, sharedCounters=counters)
    slices = [shared, pool_slice(partition("a", "3Gi"), partition("b", "2Gi"), partition("c", "1Gi"), count=2)]

    assert allocate(slices, claim(request(count=2))) == [["a", "c"]]
    assert allocate(slices, claim(request()), in_use=("a",)) == [["c"]]
    assert allocate(slices, claim(request(count=3))) is None


def test_only_the_latest_generation_of_a_complete_pool_is_used():
    old, new = pool_slice(device("a")), pool_slice(device("b"), name="s2", generation=2, count=2)

    assert allocate([old, new], claim(request())) is None
    with pytest.raises(AllocationError, match="is currently incomplete"):
        allocate([old, new], claim(request(allocationMode="All")))
    assert allocate([old, new, pool_slice(device("c"), name="s3", generation=2, count=2)], claim(request())) == [["b"]]


def test_pool_with_duplicate_names_is_not_used():
    assert allocate([pool_slice(device("a"), device("a"))], claim(request())) is None


@pytest.mark.parametrize(
    ("scope", "devices"),
    [
        ({"nodeName": "n2"}, None),
        ({"nodeName": None, "allNodes": True}, [["a"]]),
        ({"nodeName": NODE}, [["a"]]),
    ],
)
def test_devices_of_the_node_are_used(scope, devices):
    assert allocate([pool_slice(device("a"), **scope)], claim(request())) == devices


@pytest.mark.parametrize(("zone", "devices"), [("a", [["a"]]), ("b", None)])
def test_node_selector_of_a_slice_is_applied(zone, devices):
    expression = {"key": "zone", "operator": "In", "values": [zone]}
    selector = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}

    assert allocate([pool_slice(device("a"), nodeName=None, nodeSelector=selector)], claim(request())) == devices


def test_device_with_a_different_node_than_its_slice_is_left_out():
    slices = [
        pool_slice(device("a", nodeName="n2"), device("b", nodeName=NODE), nodeName=None, perDeviceNodeSelection=True)
    ]

    assert allocate(slices, claim(request())) == [["b"]]


def test_failing_selector_is_reported():
    with pytest.raises(AllocationError, match="claim claim: selector #0: CEL runtime error: no such key: missing"):
        allocate(TWO, claim(request("one", f'device.attributes["{DRIVER}"].missing == 1')))
    classes = {"gpu": {"metadata": {"name": "gpu"}, "spec": {"selectors": [{"cel": {"expression": "device.driver"}}]}}}
    with pytest.raises(AllocationError, match="class gpu: selector #0: CEL runtime error: must evaluate to bool"):
        allocate(TWO, claim(request()), classes=classes)


def test_search_is_limited(monkeypatch):
    monkeypatch.setattr(device_allocation, "MAX_STEPS", 50)
    devices = [device(f"d{number}", f"model-{number}") for number in range(30)]
    constraint = {"matchAttribute": f"{DRIVER}/model"}

    with pytest.raises(AllocationError, match="more than 50 devices would have to be tried"):
        allocate([pool_slice(*devices)], claim(request(count=3), constraints=[constraint]))


def test_claim_has_at_most_32_devices():
    devices = [device(f"d{number}") for number in range(40)]

    assert allocate([pool_slice(*devices)], claim(request(count=33))) is None


def test_allocation_is_limited_to_the_node():
    found = Allocator(NODE, pools_for(TWO, NODE, {}), {"gpu": {"metadata": {"name": "gpu"}}}, DevicesInUse()).allocate(
        [claim(request())]
    )

    assert found is not None
    field = {"key": "metadata.name", "operator": "In", "values": [NODE]}
    assert found[0]["nodeSelector"] == {"nodeSelectorTerms": [{"matchFields": [field]}]}


RANGE = {"default": "1Gi", "validRange": {"min": "1Gi", "step": "1Gi", "max": "6Gi"}}
VALUES = {"default": "1Gi", "validValues": ["1Gi", "2Gi", "4Gi"]}


def shared_device(name: str, policy: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    capacity = {"memory": {"value": "8Gi", **({"requestPolicy": policy} if policy else {})}}
    return device(name, allowMultipleAllocations=True, capacity=capacity, **fields)


def results(slices: list[Any], *claims: Any, in_use: DevicesInUse | None = None, **features: bool) -> Any:
    classes = {"gpu": {"metadata": {"name": "gpu"}, "spec": {}}}
    used, enabled = in_use or DevicesInUse(), AllocationFeatures(**features)
    found = Allocator(NODE, pools_for(slices, NODE, {}), classes, used, enabled).allocate(claims)
    return None if found is None else [item for each in found for item in each["devices"]["results"]]


@pytest.mark.parametrize(
    ("policy", "requested", "consumed"),
    [
        (None, None, "8Gi"),
        (None, "1500Mi", "1500Mi"),
        (RANGE, None, "1Gi"),
        (RANGE, "100Mi", "1Gi"),
        (RANGE, "2500Mi", "3Gi"),
        (RANGE, "7Gi", None),
        (VALUES, "3Gi", "4Gi"),
        (VALUES, "5Gi", None),
    ],
)
def test_capacity_is_rounded_to_the_policy_of_the_device(policy, requested, consumed):
    fields = {} if requested is None else {"capacity": {"requests": {"memory": requested}}}

    found = results([pool_slice(shared_device("a", policy))], claim(request(**fields)))

    assert (found and found[0]["consumedCapacity"]) == (consumed and {"memory": consumed})


def test_claims_share_a_device_until_its_capacity_is_consumed():
    slices, half = [pool_slice(shared_device("a"))], request(capacity={"requests": {"memory": "4Gi"}})

    first, second = results(slices, claim(half), claim(half))

    assert (first["device"], second["device"]) == ("a", "a")
    assert first["shareID"] != second["shareID"]
    used = DevicesInUse(shared={DeviceId(DRIVER, NODE, "a"): {"memory": 5 * 2**30 * 10**9}})
    assert results(slices, claim(half), in_use=used) is None
    assert results(slices, claim(request(capacity={"requests": {"memory": "3Gi"}})), in_use=used) is not None
    assert results(slices, claim(half), claim(half), claim(half)) is None
    dedicated = results(slices, claim(request()), claim(request()), consumable_capacity=False)
    assert dedicated is None


def test_shared_device_consumes_its_counters_once():
    consumed = [{"counterSet": "gpu", "counters": {"slots": {"value": "1"}}}]
    counters = [{"name": "gpu", "counters": {"slots": {"value": "1"}}}]
    shared = pool_slice(name="s0", count=2, sharedCounters=counters)
    devices = [shared_device(name, consumesCounters=consumed) for name in ("a", "b")]
    small = claim(request(capacity={"requests": {"memory": "1Gi"}}))

    assert [item["device"] for item in results([shared, pool_slice(*devices, count=2)], small, small)] == ["a", "a"]


def test_requested_capacity_fails_while_the_feature_is_disabled():
    with pytest.raises(AllocationError, match="the DRAConsumableCapacity feature is disabled"):
        results(TWO, claim(request(capacity={"requests": {"memory": "1Gi"}})), consumable_capacity=False)


def test_devices_with_binding_conditions_are_the_last_choice():
    conditions = {"bindingConditions": ["ready"], "bindingFailureConditions": ["broken"], "bindsToNode": True}
    attached = pool_slice(device("far", **conditions), name="s0")
    attached["spec"]["pool"]["name"] = "a-pool"

    assert [item["device"] for item in results([attached, *TWO], claim(request()))] == ["a"]
    (found,) = results([attached], claim(request()))
    assert (found["bindingConditions"], found["bindingFailureConditions"]) == (["ready"], ["broken"])
    assert results([attached], claim(request()), binding_conditions=False) is None


def test_configuration_of_a_class_names_all_its_requests():
    opaque = {"driver": DRIVER, "parameters": {}}
    classes = {"gpu": {"metadata": {"name": "gpu"}, "spec": {"config": [{"opaque": opaque}]}}}
    found = Allocator(NODE, pools_for(TWO, NODE, {}), classes, DevicesInUse()).allocate(
        [claim(request("one"), request("two"))]
    )

    assert found is not None
    assert found[0]["devices"]["config"] == [{"source": "FromClass", "requests": ["one", "two"], "opaque": opaque}]


def test_administrative_access_takes_a_device_once_per_claim():
    one, two = request("one", adminAccess=True), request("two", adminAccess=True)

    assert allocate(TWO, claim(one, two)) == [["a", "b"]]
    assert allocate(TWO, claim(one), claim(two)) == [["a"], ["a"]]


def test_shared_device_that_is_left_out_again_consumes_no_counters():
    counters = {"name": "bus", "counters": {"lanes": {"value": "1"}}}
    needed = {"consumesCounters": [{"counterSet": "bus", "counters": {"lanes": {"value": "1"}}}]}
    shared = {"allowMultipleAllocations": True, **needed}
    devices = pool_slice(device("a", **shared), device("b", "large", **shared), sharedCounters=[counters])
    only_large = f'device.attributes["{DRIVER}"].model == "large"'

    assert allocate([devices], claim(request("any"), request("large", only_large))) == [["b", "b"]]
