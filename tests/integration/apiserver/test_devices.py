"""Tests for dynamic resource allocation in the server: kinds and their versions, claims of pods, and allocation."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from .conftest import Api, Server

GROUP = "/apis/resource.k8s.io"
CLASSES, SLICES = f"{GROUP}/v1/deviceclasses", f"{GROUP}/v1/resourceslices"
CLAIMS = f"{GROUP}/v1/namespaces/default/resourceclaims"
TEMPLATES = f"{GROUP}/v1/namespaces/default/resourceclaimtemplates"
NODES, PODS = "/api/v1/nodes", "/api/v1/namespaces/default/pods"
RULES = f"{GROUP}/v1beta2/devicetaintrules"
MERGE = "application/merge-patch+json"
BETA = "resource.k8s.io/v1beta1=true,resource.k8s.io/v1beta2=true"
DRIVER = "gpu.example.com"


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """Administrator's client of a server of release 1.36 with one ready node and two devices."""
    gates = "--feature-gates=DRADeviceTaintRules=true"
    options = ("--compatibility-version=1.36", f"--runtime-config={BETA}", gates)
    server = Server(tmp_path_factory.mktemp("devices"), *options)
    client = server.api()
    status = {
        "conditions": [{"type": "Ready", "status": "True"}],
        "allocatable": {"cpu": "2", "memory": "2Gi", "pods": "20"},
    }
    client.ok("POST", NODES, {"metadata": {"name": "n1"}, "status": status})
    wait_for(lambda: "taints" not in client.ok("GET", f"{NODES}/n1")["spec"])
    expression = f'device.driver == "{DRIVER}" && device.capacity["{DRIVER}"].memory.compareTo(quantity("1Gi")) >= 0'
    client.ok(
        "POST",
        CLASSES,
        {"metadata": {"name": "gpu"}, "spec": {"selectors": [{"cel": {"expression": expression}}]}},
    )
    devices = [
        {
            "name": f"gpu-{number}",
            "attributes": {"model": {"string": model}, "index": {"int": number}},
            "capacity": {"memory": {"value": "2Gi"}},
        }
        for number, model in enumerate(("small", "large"))
    ]
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    client.ok(
        "POST",
        SLICES,
        {
            "metadata": {"name": "n1-gpu"},
            "spec": {"driver": DRIVER, "nodeName": "n1", "pool": pool, "devices": devices},
        },
    )
    yield client
    assert server.stop() == 0


def wait_for(condition: Callable[[], Any], seconds: float = 20) -> Any:
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.02)
    return found


def requests(*selectors: str, **options: Any) -> dict[str, Any]:
    """Return the specification of a claim with one request for devices of the class."""
    found = [{"cel": {"expression": text}} for text in selectors]
    exactly = {"deviceClassName": "gpu", **({"selectors": found} if found else {}), **options}
    return {"devices": {"requests": [{"name": "one", "exactly": exactly}]}}


def create_pod(api: Api, name: str, **claim: str) -> None:
    container = {"name": "c", "image": "registry.example/c:1", "resources": {"claims": [{"name": "gpu"}]}}
    spec = {"containers": [container], "resourceClaims": [{"name": "gpu", **claim}]}
    api.ok("POST", PODS, {"metadata": {"name": name}, "spec": spec})


def is_bound(api: Api, name: str) -> bool:
    return api.ok("GET", f"{PODS}/{name}")["spec"].get("nodeName") == "n1"


def delete_pod(api: Api, name: str) -> None:
    api.ok("DELETE", f"{PODS}/{name}?gracePeriodSeconds=0")


def claim_of(api: Api, pod: str) -> str:
    statuses = api.ok("GET", f"{PODS}/{pod}")["status"].get("resourceClaimStatuses") or [{}]
    name: str = statuses[0].get("resourceClaimName") or ""
    return name


def test_claim_from_template_is_created_allocated_and_deleted(api: Api) -> None:
    create_pod(api, "templated", resourceClaimTemplateName="large")
    selector = f'device.attributes["{DRIVER}"].model == "large"'
    metadata = {"labels": {"made": "here"}}
    api.ok(
        "POST", TEMPLATES, {"metadata": {"name": "large"}, "spec": {"metadata": metadata, "spec": requests(selector)}}
    )

    wait_for(lambda: is_bound(api, "templated"))

    pod = api.ok("GET", f"{PODS}/templated")
    claim = api.ok("GET", f"{CLAIMS}/{claim_of(api, 'templated')}")
    results = [{"request": "one", "driver": DRIVER, "pool": "n1", "device": "gpu-1"}]
    assert claim["status"]["allocation"]["devices"]["results"] == results
    assert claim["status"]["reservedFor"] == [{"resource": "pods", "name": "templated", "uid": pod["metadata"]["uid"]}]
    assert claim["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
    assert claim["metadata"]["labels"] == {"made": "here"}
    assert claim["metadata"]["annotations"] == {"resource.kubernetes.io/pod-claim-name": "gpu"}
    assert claim["metadata"]["name"].startswith("templated-gpu-")
    delete_pod(api, "templated")
    wait_for(lambda: not api.ok("GET", CLAIMS)["items"])


def scheduled(api: Api, name: str) -> str:
    """Return the message of the condition ``PodScheduled`` once the pod could not be scheduled."""

    def message() -> str:
        conditions = api.ok("GET", f"{PODS}/{name}")["status"].get("conditions") or ()
        return next((item.get("message", "") for item in conditions if item["type"] == "PodScheduled"), "")

    found: str = wait_for(message)
    return found


def create_claim(api: Api, name: str, spec: dict[str, Any], path: str = CLAIMS) -> Any:
    return api.ok("POST", path, {"metadata": {"name": name}, "spec": spec})


def devices_of(api: Api, name: str) -> list[str]:
    results = api.ok("GET", f"{CLAIMS}/{name}")["status"]["allocation"]["devices"]["results"]
    return [result["device"] for result in results]


def remove(api: Api, *names: str) -> None:
    """Delete pods, and claims that they have used."""
    for name in names:
        delete_pod(api, name)
        wait_for(lambda name=name: "allocation" not in api.ok("GET", f"{CLAIMS}/{name}")["status"])  # type: ignore[misc]
        api.ok("DELETE", f"{CLAIMS}/{name}")


def test_shared_claim_is_reserved_for_all_its_pods(api: Api) -> None:
    create_claim(api, "shared", requests())
    for name in ("first", "second"):
        create_pod(api, name, resourceClaimName="shared")
    for name in ("first", "second"):
        wait_for(lambda name=name: is_bound(api, name))  # type: ignore[misc]

    consumers = api.ok("GET", f"{CLAIMS}/shared")["status"]["reservedFor"]
    assert {item["name"] for item in consumers} == {"first", "second"}
    delete_pod(api, "first")
    delete_pod(api, "second")
    wait_for(lambda: api.ok("GET", f"{CLAIMS}/shared")["status"] == {})
    assert "finalizers" not in api.ok("GET", f"{CLAIMS}/shared")["metadata"]
    api.ok("DELETE", f"{CLAIMS}/shared")


def test_device_is_allocated_to_one_claim_at_a_time(api: Api) -> None:
    selector = f'device.attributes["{DRIVER}"].index == 0'
    for name in ("holder", "waiter"):
        create_claim(api, name, requests(selector))
    create_pod(api, "holder", resourceClaimName="holder")
    wait_for(lambda: is_bound(api, "holder"))
    create_pod(api, "waiter", resourceClaimName="waiter")
    assert scheduled(api, "waiter").startswith("0/1 nodes are available: 1 cannot allocate all claims.")

    delete_pod(api, "holder")
    wait_for(lambda: is_bound(api, "waiter"))

    assert devices_of(api, "waiter") == ["gpu-0"]
    api.ok("DELETE", f"{CLAIMS}/holder")
    remove(api, "waiter")


def test_all_devices_are_allocated(api: Api) -> None:
    create_claim(api, "every", requests(allocationMode="All"))
    create_pod(api, "every", resourceClaimName="every")
    wait_for(lambda: is_bound(api, "every"))

    assert devices_of(api, "every") == ["gpu-0", "gpu-1"]
    remove(api, "every")


def test_claim_with_constraint_that_no_devices_fulfill_is_not_allocated(api: Api) -> None:
    spec = requests(count=2)
    spec["devices"]["constraints"] = [{"requests": ["one"], "matchAttribute": f"{DRIVER}/model"}]
    create_claim(api, "alike", spec)
    create_pod(api, "alike", resourceClaimName="alike")

    assert "1 cannot allocate all claims" in scheduled(api, "alike")
    delete_pod(api, "alike")
    api.ok("DELETE", f"{CLAIMS}/alike")


@pytest.mark.parametrize(
    ("name", "claim", "reason"),
    [
        ("no-claim", {"resourceClaimName": "missing"}, 'resourceclaim.resource.k8s.io "missing" not found'),
        (
            "no-template",
            {"resourceClaimTemplateName": "missing"},
            'pod "default/no-template": ResourceClaim not created yet',
        ),
    ],
)
def test_pod_without_its_claim_is_not_scheduled(api: Api, name: str, claim: dict[str, str], reason: str) -> None:
    create_pod(api, name, **claim)

    assert scheduled(api, name).startswith(f"0/1 nodes are available: {reason}.")
    delete_pod(api, name)


def test_missing_class_is_reported(api: Api) -> None:
    create_claim(api, "classless", {"devices": {"requests": [{"name": "one", "exactly": {"deviceClassName": "none"}}]}})
    create_pod(api, "classless", resourceClaimName="classless")

    assert "1 request one: device class none does not exist" in scheduled(api, "classless")
    delete_pod(api, "classless")
    api.ok("DELETE", f"{CLAIMS}/classless")


def test_configuration_of_class_and_claim_is_passed_to_the_driver(api: Api) -> None:
    opaque = {"driver": DRIVER, "parameters": {"mode": "class"}}
    api.ok("POST", CLASSES, {"metadata": {"name": "configured"}, "spec": {"config": [{"opaque": opaque}]}})
    spec = requests()
    spec["devices"]["requests"][0]["exactly"]["deviceClassName"] = "configured"
    own = {"driver": DRIVER, "parameters": {"mode": "claim"}}
    spec["devices"]["config"] = [{"requests": ["one"], "opaque": own}]
    create_claim(api, "configured", spec)
    create_pod(api, "configured", resourceClaimName="configured")
    wait_for(lambda: is_bound(api, "configured"))

    assert api.ok("GET", f"{CLAIMS}/configured")["status"]["allocation"]["devices"]["config"] == [
        {"source": "FromClass", "requests": ["one"], "opaque": opaque},
        {"source": "FromClaim", "requests": ["one"], "opaque": own},
    ]
    remove(api, "configured")
    api.ok("DELETE", f"{CLASSES}/configured")


def test_versions_have_the_same_objects(api: Api) -> None:
    flat = {"name": "one", "deviceClassName": "gpu", "selectors": [{"cel": {"expression": "true"}}]}
    create_claim(api, "flat", {"devices": {"requests": [flat]}}, CLAIMS.replace("/v1/", "/v1beta1/"))

    exact = {key: value for key, value in flat.items() if key != "name"}
    defaults = {"allocationMode": "ExactCount", "count": 1}
    for version in ("v1", "v1beta2"):
        found = api.ok("GET", f"{CLAIMS}/flat".replace("/v1/", f"/{version}/"))
        assert found["apiVersion"] == f"resource.k8s.io/{version}"
        assert found["spec"]["devices"]["requests"] == [{"name": "one", "exactly": exact | defaults}]
    found = api.ok("GET", f"{SLICES}/n1-gpu".replace("/v1/", "/v1beta1/"))
    assert found["spec"]["devices"][0]["basic"]["attributes"]["index"] == {"int": 0}
    create_pod(api, "flat", resourceClaimName="flat")
    wait_for(lambda: is_bound(api, "flat"))
    patch = {"metadata": {"labels": {"changed": "yes"}}}
    path = f"{CLAIMS}/flat".replace("/v1/", "/v1beta1/")
    changed = api.ok("PATCH", path, patch, content_type=MERGE)
    assert changed["status"]["allocation"]["devices"]["results"][0]["device"] == "gpu-0"
    remove(api, "flat")


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        (
            {"devices": {"requests": [{"name": "one"}]}},
            "spec.devices.requests[0]: Required value: exactly one of `exactly` or `firstAvailable` is required",
        ),
        (
            requests("device.attributes["),
            'spec.devices.requests[0].exactly.selectors[0].cel.expression: Invalid value: "device.attributes[": ',
        ),
        (
            requests(allocationMode="All", count=2),
            "spec.devices.requests[0].exactly.count: Invalid value: 2: must not be specified when allocationMode is",
        ),
        (
            {"devices": {"constraints": [{"requests": ["two"], "matchAttribute": "a.example/b"}]}},
            'spec.devices.constraints[0].requests[0]: Invalid value: "two": must be the name of a request in the claim',
        ),
    ],
)
def test_invalid_claim_is_rejected(api: Api, spec: dict[str, Any], error: str) -> None:
    code, response = api.call("POST", CLAIMS, {"metadata": {"name": "invalid"}, "spec": spec})

    assert code == 422
    assert error in response["message"]


def test_claim_is_immutable_except_for_its_metadata(api: Api) -> None:
    create_claim(api, "fixed", requests())
    patch = {"spec": requests(count=2)}

    code, response = api.call("PATCH", f"{CLAIMS}/fixed", patch, content_type=MERGE)

    assert (code, "spec: Invalid value" in response["message"]) == (422, True)
    assert response["message"].endswith("field is immutable")
    api.ok("DELETE", f"{CLAIMS}/fixed")


def test_status_needs_an_allocation_before_a_reservation(api: Api) -> None:
    create_claim(api, "status", requests())
    patch = {"status": {"reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]}}

    code, response = api.call("PATCH", f"{CLAIMS}/status/status", patch, content_type=MERGE)

    assert code == 422
    assert "may not be specified when `allocated` is not set" in response["message"]
    api.ok("DELETE", f"{CLAIMS}/status")


def test_admin_access_needs_a_label_of_the_namespace(api: Api) -> None:
    spec = requests(adminAccess=True, allocationMode="All")
    code, response = api.call("POST", CLAIMS, {"metadata": {"name": "monitor"}, "spec": spec})
    assert code == 422
    label = "`resource.kubernetes.io/admin-access: true`"
    assert f"admin access to devices requires the {label} label on the containing namespace" in response["message"]

    labels = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
    api.ok("PATCH", "/api/v1/namespaces/default", labels, content_type=MERGE)
    create_claim(api, "user", requests())
    create_pod(api, "user", resourceClaimName="user")
    wait_for(lambda: is_bound(api, "user"))
    create_claim(api, "monitor", spec)
    create_pod(api, "monitor", resourceClaimName="monitor")
    wait_for(lambda: is_bound(api, "monitor"))

    assert devices_of(api, "monitor") == ["gpu-0", "gpu-1"]
    remove(api, "user", "monitor")


def test_slices_are_selected_by_node_and_driver(api: Api) -> None:
    def names(selector: str) -> list[str]:
        items = api.ok("GET", f"{SLICES}?fieldSelector={selector}")["items"]
        return [item["metadata"]["name"] for item in items]

    assert names("spec.nodeName=n1") == names(f"spec.driver={DRIVER}") == ["n1-gpu"]
    assert names("spec.nodeName=n2") == []


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"nodeName": "n2"}, 'spec.nodeName: Invalid value: "n2": field is immutable'),
        ({"allNodes": True}, "but multiple fields are set"),
        (
            {"pool": {"resourceSliceCount": 0}},
            "spec.pool.resourceSliceCount: Invalid value: 0: must be greater",
        ),
        (
            {"devices": [{"name": "a", "attributes": {"v": {"version": "1"}}}]},
            'Invalid value: "1": must be a string compatible with semver.org spec 2.0.0',
        ),
    ],
)
def test_invalid_slice_is_rejected(api: Api, change: dict[str, Any], error: str) -> None:
    code, response = api.call("PATCH", f"{SLICES}/n1-gpu", {"spec": change}, content_type=MERGE)

    assert (code, error in response["message"]) == (422, True), response["message"]


def test_table_shows_the_state_of_a_claim(api: Api) -> None:
    create_claim(api, "table", requests())
    accept = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    _, table = api.call("GET", f"{CLAIMS}/table", headers=accept)

    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "State", "Age"]
    assert table["rows"][0]["cells"][:2] == ["table", "pending"]
    api.ok("DELETE", f"{CLAIMS}/table")


@pytest.mark.parametrize("resource", ["example.com/gpu", "deviceclass.resource.kubernetes.io/extended"])
def test_extended_resource_is_provided_by_a_claim(api: Api, resource: str) -> None:
    name = resource.rpartition("/")[2]
    api.ok("POST", CLASSES, {"metadata": {"name": "extended"}, "spec": {"extendedResourceName": "example.com/gpu"}})
    amounts = {resource: "2"}
    container = {"name": "c", "image": "registry.example/c:1", "resources": {"limits": amounts, "requests": amounts}}
    api.ok("POST", PODS, {"metadata": {"name": name}, "spec": {"containers": [container]}})
    wait_for(lambda: is_bound(api, name))

    status = api.ok("GET", f"{PODS}/{name}")["status"]["extendedResourceClaimStatus"]
    mapping = {"containerName": "c", "resourceName": resource, "requestName": "container-0-request-0"}
    assert status["requestMappings"] == [mapping]
    claim = api.ok("GET", f"{CLAIMS}/{status['resourceClaimName']}")
    assert claim["metadata"]["annotations"] == {"resource.kubernetes.io/extended-resource-claim": "true"}
    assert [item["device"] for item in claim["status"]["allocation"]["devices"]["results"]] == ["gpu-0", "gpu-1"]
    delete_pod(api, name)
    wait_for(lambda: not api.ok("GET", CLAIMS)["items"])
    api.ok("DELETE", f"{CLASSES}/extended")


def publish(api: Api, *devices: dict[str, Any]) -> None:
    """Replace the devices of the pool ``special``."""
    api.call("DELETE", f"{SLICES}/special")
    pool = {"name": "special", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "special.example.com", "nodeName": "n1", "pool": pool, "devices": list(devices)}
    api.ok("POST", SLICES, {"metadata": {"name": "special"}, "spec": spec})


def special(**fields: Any) -> dict[str, Any]:
    """Return the specification of a claim for a device of :func:`publish`."""
    selector = 'device.driver == "special.example.com"'
    exactly = {"deviceClassName": "any", "selectors": [{"cel": {"expression": selector}}], **fields}
    return {"devices": {"requests": [{"name": "one", "exactly": exactly}]}}


@pytest.fixture(scope="module")
def any_class(api: Api) -> None:
    api.ok("POST", CLASSES, {"metadata": {"name": "any"}, "spec": {}})


@pytest.mark.usefixtures("any_class")
def test_claims_share_a_device_while_its_capacity_suffices(api: Api) -> None:
    policy = {"default": "1Gi", "validRange": {"min": "1Gi", "step": "1Gi"}}
    capacity = {"memory": {"value": "8Gi", "requestPolicy": policy}}
    publish(api, {"name": "gpu", "allowMultipleAllocations": True, "capacity": capacity})
    for name, amount in (("one", "2500Mi"), ("two", "5Gi"), ("three", "1Gi")):
        create_claim(api, name, special(capacity={"requests": {"memory": amount}}))
        create_pod(api, name, resourceClaimName=name)
    wait_for(lambda: is_bound(api, "one") and is_bound(api, "two"))

    results = [
        api.ok("GET", f"{CLAIMS}/{name}")["status"]["allocation"]["devices"]["results"] for name in ("one", "two")
    ]
    assert [item["consumedCapacity"] for (item,) in results] == [{"memory": "3Gi"}, {"memory": "5Gi"}]
    assert results[0][0]["shareID"] != results[1][0]["shareID"]
    assert "cannot allocate all claims" in scheduled(api, "three")
    remove(api, "one")
    wait_for(lambda: is_bound(api, "three"))
    remove(api, "two", "three")


@pytest.mark.usefixtures("any_class")
def test_pod_is_bound_once_its_device_is_ready(api: Api) -> None:
    conditions = {"bindingConditions": ["attached"], "bindingFailureConditions": ["broken"], "bindsToNode": True}
    publish(api, {"name": "a", **conditions}, {"name": "b", **conditions})
    create_claim(api, "attach", special())
    create_pod(api, "attach", resourceClaimName="attach")
    claim = wait_for(lambda: has_allocation(api, "attach"))
    (result,) = claim["status"]["allocation"]["devices"]["results"]
    assert (result["device"], result["bindingConditions"]) == ("a", ["attached"])
    assert claim["status"]["allocation"]["allocationTimestamp"]

    report(api, claim, "broken")  # Another attempt allocates a device again.
    claim = wait_for(lambda: (found := has_allocation(api, "attach")) and not found["status"].get("devices") and found)
    assert not is_bound(api, "attach")
    report(api, claim, "attached")

    wait_for(lambda: is_bound(api, "attach"))
    remove(api, "attach")


def has_allocation(api: Api, name: str) -> Any:
    claim = api.ok("GET", f"{CLAIMS}/{name}")
    return claim if claim["status"].get("allocation") else None


def report(api: Api, claim: Any, condition: str) -> None:
    """Set a condition of the only device of *claim*, as its driver would."""
    (result,) = claim["status"]["allocation"]["devices"]["results"]
    now = "2026-01-01T00:00:00Z"
    entry = {"type": condition, "status": "True", "reason": "Reported", "message": "", "lastTransitionTime": now}
    device = {name: result[name] for name in ("driver", "pool", "device")} | {"conditions": [entry]}
    body = {"status": {"devices": [device]}}
    api.ok("PATCH", f"{CLAIMS}/{claim['metadata']['name']}/status", body, content_type=MERGE)


def add_rule(api: Api, name: str, **taint: str) -> None:
    selector = {"driver": "special.example.com", "device": "a"}
    spec = {"deviceSelector": selector, "taint": {"key": "example.com/broken", **taint}}
    created = api.ok("POST", RULES, {"metadata": {"name": name}, "spec": spec})
    assert created["spec"]["taint"]["timeAdded"]


@pytest.mark.usefixtures("any_class")
def test_rule_evicts_the_pods_with_its_devices(api: Api) -> None:
    publish(api, {"name": "a"}, {"name": "b"})
    tolerations = [{"key": "example.com/broken", "operator": "Exists", "effect": "NoExecute"}]
    for name, fields in (("evicted", {}), ("other", {})):
        create_claim(api, name, special(**fields))
        create_pod(api, name, resourceClaimName=name)
        wait_for(lambda name=name: is_bound(api, name))  # type: ignore[misc]
    assert (devices_of(api, "evicted"), devices_of(api, "other")) == (["a"], ["b"])

    add_rule(api, "broken", effect="NoExecute", value="fan")

    wait_for(lambda: "deletionTimestamp" in api.ok("GET", f"{PODS}/evicted")["metadata"])
    evicted = api.ok("GET", f"{PODS}/evicted")
    (condition,) = [item for item in evicted["status"]["conditions"] if item["type"] == "DisruptionTarget"]
    assert condition["reason"] == "DeletionByDeviceTaintManager"
    assert "deletionTimestamp" not in api.ok("GET", f"{PODS}/other")["metadata"]
    remove(api, "evicted")
    create_claim(api, "refused", special())
    create_pod(api, "refused", resourceClaimName="refused")
    assert "cannot allocate all claims" in scheduled(api, "refused")
    create_claim(api, "tolerated", special(tolerations=tolerations))
    create_pod(api, "tolerated", resourceClaimName="tolerated")
    wait_for(lambda: is_bound(api, "tolerated"))
    assert devices_of(api, "tolerated") == ["a"]
    remove(api, "tolerated")
    api.ok("DELETE", f"{RULES}/broken")
    wait_for(lambda: is_bound(api, "refused"))
    remove(api, "refused", "other")


@pytest.mark.usefixtures("any_class")
def test_taint_of_a_slice_evicts_after_the_tolerated_time(api: Api) -> None:
    publish(api, {"name": "a"})
    tolerations = [{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1}]
    create_claim(api, "tolerant", special(tolerations=tolerations))
    create_pod(api, "tolerant", resourceClaimName="tolerant")
    wait_for(lambda: is_bound(api, "tolerant"))
    taint = {"key": "example.com/broken", "effect": "NoExecute"}
    api.ok("PATCH", f"{SLICES}/special", {"spec": {"devices": [{"name": "a", "taints": [taint]}]}}, content_type=MERGE)

    wait_for(lambda: "deletionTimestamp" in api.ok("GET", f"{PODS}/tolerant")["metadata"])
    remove(api, "tolerant")


@pytest.mark.usefixtures("any_class")
def test_rule_without_effect_reports_its_devices(api: Api) -> None:
    publish(api, {"name": "a"}, {"name": "b"})
    create_claim(api, "simulated", special())
    create_pod(api, "simulated", resourceClaimName="simulated")
    wait_for(lambda: is_bound(api, "simulated"))

    add_rule(api, "harmless", effect="None")

    rule = wait_for(lambda: (found := api.ok("GET", f"{RULES}/harmless"))["status"].get("conditions") and found)
    (condition,) = rule["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("EvictionInProgress", "False", "NoEffect")
    assert condition["message"].startswith(
        "1 published device selected. 1 allocated device selected. 1 pod would be evicted in 1 namespace "
    )
    api.ok("DELETE", f"{RULES}/harmless")
    remove(api, "simulated")


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        ({"taint": {"key": "example.com/a"}}, "spec.taint.effect: Required value"),
        ({"taint": {"key": "", "effect": "None"}}, "spec.taint.key: Invalid value"),
        (
            {"taint": {"key": "a", "effect": "Now"}},
            'Unsupported value: "Now": supported values: "NoExecute", "NoSchedule", "None"',
        ),
        ({"taint": {"key": "a", "effect": "None"}, "deviceSelector": {"driver": "A_"}}, "spec.deviceSelector.driver"),
        ({"taint": {"key": "a", "effect": "None"}, "deviceSelector": {"pool": ""}}, "spec.deviceSelector.pool"),
    ],
)
def test_invalid_rule_is_rejected(api: Api, spec: dict[str, Any], error: str) -> None:
    code, response = api.call("POST", RULES, {"metadata": {"name": "invalid"}, "spec": spec})

    assert (code, error in response["message"]) == (422, True), response["message"]


def test_init_container_has_the_extended_resources_of_the_container(api: Api) -> None:
    api.ok("POST", CLASSES, {"metadata": {"name": "extended"}, "spec": {"extendedResourceName": "example.com/gpu"}})
    limits = {"resources": {"limits": {"example.com/gpu": "2"}}}
    names = {"initContainers": "i", "containers": "c"}
    spec = {kind: [{"name": name, "image": "registry.example/c:1", **limits}] for kind, name in names.items()}
    api.ok("POST", PODS, {"metadata": {"name": "shared"}, "spec": spec})
    wait_for(lambda: is_bound(api, "shared"))

    status = api.ok("GET", f"{PODS}/shared")["status"]["extendedResourceClaimStatus"]
    used = {item["containerName"]: item["requestName"] for item in status["requestMappings"]}
    assert used == {"c": "container-1-request-0", "i": "container-1-request-0"}
    assert devices_of(api, status["resourceClaimName"]) == ["gpu-0", "gpu-1"]
    delete_pod(api, "shared")
    wait_for(lambda: not api.ok("GET", CLAIMS)["items"])
    api.ok("DELETE", f"{CLASSES}/extended")


def test_unknown_extended_resource_is_insufficient(api: Api) -> None:
    amounts = {"example.com/unknown": "1"}
    container = {"name": "c", "image": "registry.example/c:1", "resources": {"limits": amounts, "requests": amounts}}
    api.ok("POST", PODS, {"metadata": {"name": "unknown"}, "spec": {"containers": [container]}})

    assert "1 Insufficient example.com/unknown" in scheduled(api, "unknown")
    delete_pod(api, "unknown")


def test_example_of_the_guide_is_valid(api: Api) -> None:
    page = (Path(__file__).parents[3] / "docs/resource-claims.md").read_text()
    (example, *_) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    collections = {"DeviceClass": CLASSES, "ResourceClaimTemplate": TEMPLATES, "Pod": PODS}

    for item in yaml.safe_load_all(example):
        item["metadata"]["name"] += "-of-the-guide"
        api.ok("POST", f"{collections[item['kind']]}?dryRun=All", item)
