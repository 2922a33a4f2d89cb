"""Tests for dynamic resource allocation in the server: kinds and their versions, claims of pods, and allocation."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from .conftest import Api, Server

GROUP = "/apis/resource.k8s.io"
CLASSES, SLICES = f"{GROUP}/v1/deviceclasses", f"{GROUP}/v1/resourceslices"
CLAIMS = f"{GROUP}/v1/namespaces/default/resourceclaims"
TEMPLATES = f"{GROUP}/v1/namespaces/default/resourceclaimtemplates"
NODES, PODS = "/api/v1/nodes", "/api/v1/namespaces/default/pods"
MERGE = "application/merge-patch+json"
BETA = "resource.k8s.io/v1beta1=true,resource.k8s.io/v1beta2=true"
DRIVER = "gpu.example.com"


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """Administrator's client of a server of release 1.36 with one ready node and two devices."""
    options = ("--compatibility-version=1.36", f"--runtime-config={BETA}")
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
