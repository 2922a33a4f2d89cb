"""Tests for the claim of extended resources: requests, and sharing between containers."""

from __future__ import annotations

from typing import Any

from apiserver_stub.scheduling.extended_resources import classes_by_resource, extended_amounts, extended_claim

GPU, NIC = "example.com/gpu", "example.com/nic"


def container(name: str, sidecar: bool = False, **amounts: str) -> dict[str, Any]:
    named = {{"gpu": GPU, "nic": NIC}.get(key, key): amount for key, amount in amounts.items()}
    restart = {"restartPolicy": "Always"} if sidecar else {}
    return {"name": name, "resources": {"requests": named, "limits": named}, **restart}


def claim(init: list[Any], containers: list[Any], *resources: str) -> tuple[list[Any], list[Any]]:
    """Return name and number of each request, and the use of requests by containers."""
    amounts = list(extended_amounts({"initContainers": init, "containers": containers}))
    found = extended_claim(amounts, resources or (GPU,))
    requests = found.spec({GPU: "gpu", NIC: "nic"})["devices"]["requests"]
    mappings = found.status("c")["requestMappings"]
    return (
        [(item["name"], item["exactly"]["count"]) for item in requests],
        [(item["containerName"], item["requestName"]) for item in mappings],
    )


def test_requests_are_numbered_by_container_and_resource():
    found = claim([], [container("a", cpu="1", gpu="2", nic="1"), container("b", gpu="1")], GPU, NIC)

    names = {"container-0-request-1": 2, "container-0-request-2": 1, "container-1-request-0": 1}
    assert dict(found[0]) == names
    assert found[1] == [
        ("a", "container-0-request-1"), ("b", "container-1-request-0"), ("a", "container-0-request-2")
    ]  # fmt: skip


def test_init_container_has_the_devices_of_later_containers():
    requests, mappings = claim([container("i", gpu="3")], [container("a", gpu="2"), container("b", gpu="2")])

    assert requests == [("container-1-request-0", 2), ("container-2-request-0", 2)]
    assert [name for owner, name in mappings if owner == "i"] == ["container-1-request-0", "container-2-request-0"]


def test_init_containers_share_the_largest_additional_request():
    init = [container("i", gpu="2"), container("j", gpu="4"), container("k", gpu="1")]
    requests, mappings = claim(init, [container("a", gpu="1")])

    assert requests == [("container-1-request-0", 3), ("container-3-request-0", 1)]
    shared = ["container-3-request-0", "container-1-request-0"]
    assert [name for owner, name in mappings if owner == "i"] == shared
    assert [name for owner, name in mappings if owner == "j"] == shared
    assert [name for owner, name in mappings if owner == "k"] == ["container-3-request-0"]


def test_devices_of_a_sidecar_are_not_available_after_its_start():
    init = [container("i", gpu="1"), container("s", sidecar=True, gpu="1"), container("j", gpu="1")]
    requests, mappings = claim(init, [container("a", cpu="1")])

    assert requests == [("container-1-request-0", 1), ("container-2-request-0", 1)]
    assert dict(mappings) == {
        "s": "container-1-request-0", "i": "container-1-request-0", "j": "container-2-request-0"
    }  # fmt: skip


def test_amount_of_zero_requests_no_devices():
    assert claim([], [container("a", gpu="0"), container("b", gpu="1")])[0] == [("container-1-request-0", 1)]


def test_init_container_has_only_devices_of_containers_after_it():
    found = claim([container("a", gpu="1"), container("s", sidecar=True, gpu="1"), container("b", gpu="1")], [])

    assert found[0] == [("container-1-request-0", 1), ("container-2-request-0", 1)]
    assert dict(found[1]) == {"a": "container-1-request-0", "s": "container-1-request-0", "b": "container-2-request-0"}


def test_class_that_was_created_last_provides_the_resource():
    def device_class(name, created, spec):
        return {"metadata": {"name": name, "creationTimestamp": created}, "spec": spec}

    provides = {"extendedResourceName": GPU}
    classes = {
        "old": device_class("old", "2026-01-01", provides),
        "last": device_class("last", "2026-01-02", provides),
        "unset": device_class("unset", None, provides),
        "other": device_class("other", "2026-01-03", None),
    }

    found = classes_by_resource(classes, "x/")

    assert found == {GPU: "last", "x/old": "old", "x/last": "last", "x/unset": "unset", "x/other": "other"}
