"""Tests for the controller of resource claims: creation from templates, reservations and releases."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.controllers.devices.claim_controller import (
    ClaimController,
    device_resources,
    generated_base,
    is_done,
)
from apiserver_stub.options import parse
from apiserver_stub.server.kinds import build_registry
from nodeagent.base.identity import Identity
from nodeagent.testing import FakeClock
from tests.unit.apiserver_stub.controllers.harness import MeteredStore, context, rest, running, store

__all__ = ["store"]
Object = dict[str, Any]
PODS, CLAIMS = "core/pods", "resource.k8s.io/resourceclaims"
TEMPLATES = "resource.k8s.io/resourceclaimtemplates"
REGISTRY = build_registry(parse(["--compatibility-version=1.34"]))
FINALIZER = "resource.kubernetes.io/delete-protection"
ALLOCATION: Object = {"devices": {"results": []}}


@asynccontextmanager
async def controller(store: MeteredStore, clock: FakeClock | None = None) -> AsyncIterator[None]:
    resource = device_resources(REGISTRY, Identity())
    assert resource is not None
    found = ClaimController(context(store), resource, Identity(), 60, clock or FakeClock())
    async with running(store, found.run()):
        await rest(store)
        yield


def pod(name: str = "p", node: str = "", phase: str = "Pending", **claims: Object) -> Object:
    """Return a pod with *claims* by their name in the pod."""
    entries = [{"name": key, **source} for key, source in claims.items()]
    spec: Object = {"containers": [], "resourceClaims": entries, **({"nodeName": node} if node else {})}
    metadata = {"name": name, "namespace": "n", "uid": f"uid-{name}"}
    return {"kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": phase}}


def template(name: str = "t", **metadata: Any) -> Object:
    spec = {"metadata": metadata, "spec": {"devices": {"requests": [request()]}}}
    return {
        "kind": "ResourceClaimTemplate",
        "apiVersion": "resource.k8s.io/v1",
        "metadata": {"name": name, "namespace": "n"},
        "spec": spec,
    }


def request() -> Object:
    return {"name": "r", "exactly": {"deviceClassName": "c", "allocationMode": "ExactCount", "count": 1}}


def claim(name: str = "c", *, allocated: bool = True, users: tuple[str, ...] = (), **metadata: Any) -> Object:
    consumers = [{"resource": "pods", "name": user, "uid": f"uid-{user}"} for user in users]
    status = {**({"allocation": ALLOCATION} if allocated else {}), **({"reservedFor": consumers} if users else {})}
    found = {"name": name, "namespace": "n", "uid": f"uid-{name}", "finalizers": [FINALIZER], **metadata}
    return {
        "kind": "ResourceClaim",
        "apiVersion": "resource.k8s.io/v1",
        "metadata": found,
        "spec": {},
        "status": status,
    }


def owned_by(name: str) -> list[Object]:
    return [{"apiVersion": "v1", "kind": "Pod", "name": name, "uid": f"uid-{name}", "controller": True}]


def claims(store: MeteredStore) -> list[Object]:
    return [store.read(CLAIMS, record.key) for record in store.collection(CLAIMS).select()]


def users(store: MeteredStore, name: str = "c") -> list[str]:
    found = store.read(CLAIMS, f"n/{name}")["status"].get("reservedFor") or ()
    return [item["name"] for item in found]


BY_TEMPLATE, BY_NAME = {"resourceClaimTemplateName": "t"}, {"resourceClaimName": "c"}


async def test_claim_is_created_from_a_template_once(store: MeteredStore) -> None:
    store.put(TEMPLATES, template(labels={"a": "b"}, annotations={"c": "d"}))
    store.put(PODS, pod(gpu=BY_TEMPLATE))
    async with controller(store):
        (found,) = claims(store)
        status = store.read(PODS, "n/p")["status"]
        store.put(PODS, {**store.read(PODS, "n/p"), "metadata": {**pod()["metadata"], "labels": {"x": "y"}}})
        await rest(store)
        assert len(claims(store)) == 1
    metadata = found["metadata"]
    assert status["resourceClaimStatuses"] == [{"name": "gpu", "resourceClaimName": metadata["name"]}]
    assert metadata["name"].startswith("p-gpu-")
    assert (metadata["labels"], metadata["annotations"]["c"]) == ({"a": "b"}, "d")
    assert metadata["annotations"]["resource.kubernetes.io/pod-claim-name"] == "gpu"
    assert metadata["ownerReferences"][0] == owned_by("p")[0]
    assert found["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] == "c"


async def test_claim_is_created_when_the_template_appears(store: MeteredStore) -> None:
    store.put(PODS, pod(gpu=BY_TEMPLATE))
    async with controller(store):
        before = claims(store)
        notes = [store.read("core/events", record.key)["note"] for record in store.collection("core/events").select()]
        store.put(TEMPLATES, template())
        await rest(store)
        assert len(claims(store)) == 1
    assert before == []
    assert 'resource claim template "t"' in notes[0]


async def test_pods_that_end_or_need_no_claim_get_none(store: MeteredStore) -> None:
    store.put(TEMPLATES, template())
    deleted = pod("deleted", gpu=BY_TEMPLATE)
    deleted["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    unneeded = pod("unneeded", gpu=BY_TEMPLATE)
    unneeded["status"]["resourceClaimStatuses"] = [{"name": "gpu"}]
    for found in (deleted, unneeded, pod("done", phase="Succeeded", gpu=BY_TEMPLATE), pod("plain")):
        store.put(PODS, found)
    async with controller(store):
        assert claims(store) == []


async def test_existing_claim_of_the_pod_is_reported(store: MeteredStore) -> None:
    store.put(TEMPLATES, template())
    annotations = {"resource.kubernetes.io/pod-claim-name": "gpu"}
    store.put(CLAIMS, claim("mine", ownerReferences=owned_by("p"), annotations=annotations))
    store.put(PODS, pod(gpu=BY_TEMPLATE))
    async with controller(store):
        status = store.read(PODS, "n/p")["status"]["resourceClaimStatuses"]
        assert [item["metadata"]["name"] for item in claims(store)] == ["mine"]
        store.remove(CLAIMS, "n/mine")
        await rest(store)
        (again,) = claims(store)
    assert status == [{"name": "gpu", "resourceClaimName": "mine"}]
    assert again["metadata"]["name"].startswith("p-gpu-")


async def test_allocated_claims_are_reserved_for_pods_on_nodes() -> None:
    for title, found, of, expected in (
        ("bound", pod(node="n", gpu=BY_NAME), claim(), ["p"]),
        ("shared", pod(node="n", gpu=BY_NAME), claim(users=("q",)), ["q", "p"]),
        ("reserved", pod(node="n", gpu=BY_NAME), claim(users=("p",)), ["p"]),
        ("not bound", pod(gpu=BY_NAME), claim(), []),
        ("not allocated", pod(node="n", gpu=BY_NAME), claim(allocated=False), []),
        ("terminated", pod(node="n", phase="Failed", gpu=BY_NAME), claim(), []),
        ("full", pod(node="n", gpu=BY_NAME), claim(users=tuple(f"u{number}" for number in range(256))), None),
    ):
        current = MeteredStore()
        others = [item["name"] for item in of["status"].get("reservedFor") or () if item["name"] != "p"]
        for name in others:
            current.put(PODS, pod(name, node="n", gpu=BY_NAME))
        current.put(CLAIMS, of)
        current.put(PODS, found)
        async with controller(current):
            assert users(current) == (others if expected is None else expected), title


async def test_claim_of_ended_pods_is_deallocated() -> None:
    for title, found, remains in (
        ("running", pod(node="n", phase="Running", gpu=BY_NAME), True),
        ("terminated", pod(node="n", phase="Succeeded", gpu=BY_NAME), False),
        ("missing", None, False),
        (
            "another of the same name",
            {**pod(gpu=BY_NAME), "metadata": {"name": "p", "namespace": "n", "uid": "x"}},
            False,
        ),
    ):
        current = MeteredStore()
        if found is not None:
            current.put(PODS, found)
        current.put(CLAIMS, claim(users=("p",)))
        async with controller(current):
            obj = current.read(CLAIMS, "n/c")
            assert ("allocation" in obj["status"], "finalizers" in obj["metadata"]) == (remains, remains), title
            assert users(current) == (["p"] if remains else []), title


async def test_other_consumers_keep_the_claim(store: MeteredStore) -> None:
    obj = claim()
    obj["status"]["reservedFor"] = [
        {"apiGroup": "x", "resource": "pods", "name": "a"},
        {"resource": "other", "name": "b"},
    ]
    store.put(CLAIMS, obj)
    async with controller(store):
        assert users(store) == ["a", "b"]


async def test_unused_claim_that_is_being_deleted_is_removed(
    store: MeteredStore, caplog: pytest.LogCaptureFixture
) -> None:
    store.put(CLAIMS, claim("unused", deletionTimestamp="2026-01-01T00:00:00Z"))
    store.put(CLAIMS, claim("other", deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["x", FINALIZER]))
    store.put(PODS, pod(node="n", phase="Running", gpu={"resourceClaimName": "used"}))
    store.put(CLAIMS, claim("used", users=("p",), deletionTimestamp="2026-01-01T00:00:00Z"))
    async with controller(store):
        names = {item["metadata"]["name"]: item["metadata"]["finalizers"] for item in claims(store)}
    assert names == {"other": ["x"], "used": [FINALIZER]}
    assert caplog.messages == []


async def test_generated_claim_of_a_terminated_pod_is_deleted() -> None:
    for title, found, remains in (
        ("running", pod(node="n", phase="Running"), True),
        ("terminated", pod(node="n", phase="Succeeded"), False),
        ("another of the same name", {**pod(), "metadata": {"name": "p", "namespace": "n", "uid": "x"}}, False),
        ("missing", None, True),
    ):
        current = MeteredStore()
        if found is not None:
            current.put(PODS, found)
        current.put(CLAIMS, claim("mine", finalizers=[], ownerReferences=owned_by("p")))
        other = [{**owned_by("p")[0], "kind": "Job"}, {**owned_by("p")[0], "controller": False}]
        current.put(CLAIMS, claim("other", finalizers=[], ownerReferences=other))
        async with controller(current):
            names = [item["metadata"]["name"] for item in claims(current)]
            assert names == (["mine", "other"] if remains else ["other"]), title


async def test_claim_is_released_when_its_pod_ends(store: MeteredStore) -> None:
    store.put(PODS, pod("p", node="n", phase="Running", gpu=BY_NAME))
    store.put(PODS, pod("q", node="n", phase="Running", gpu=BY_NAME))
    store.put(CLAIMS, claim())
    async with controller(store):
        before = users(store)
        store.put(PODS, pod("p", node="n", phase="Succeeded", gpu=BY_NAME))
        await rest(store)
        during = users(store)
        store.remove(PODS, "n/q")
        await rest(store)
        assert users(store) == []
    assert (sorted(before), during) == (["p", "q"], ["q"])


async def test_claim_is_released_when_another_pod_replaces_its_pod(store: MeteredStore) -> None:
    store.put(PODS, pod(node="n", phase="Running", gpu=BY_NAME))
    store.put(CLAIMS, claim(users=("p",)))
    async with controller(store):
        before = users(store)
        metadata = {"name": "p", "namespace": "n", "uid": "another"}
        store.put(PODS, {"metadata": metadata, "spec": {"containers": []}, "status": {}})
        await rest(store)
        assert (before, users(store)) == (["p"], [])


async def test_pod_with_claims_and_extended_resources_reserves_its_claim(store: MeteredStore) -> None:
    found = pod(node="n", phase="Running", gpu=BY_NAME)
    found["status"]["extendedResourceClaimStatus"] = {"resourceClaimName": "extended", "requestMappings": []}
    store.put(PODS, found)
    store.put(CLAIMS, claim())
    async with controller(store):
        assert users(store) == ["p"]


async def test_objects_without_claims_and_owners_are_ignored(
    store: MeteredStore, caplog: pytest.LogCaptureFixture
) -> None:
    annotations = {"resource.kubernetes.io/pod-claim-name": "gpu"}
    store.put(TEMPLATES, template())
    store.put(PODS, pod("plain"))
    store.put(CLAIMS, claim("of-no-pod", allocated=False, annotations=annotations))
    store.put(CLAIMS, claim("without-name", allocated=False, ownerReferences=owned_by("p")))
    async with controller(store):
        store.remove(TEMPLATES, "n/t")
        store.remove(PODS, "n/plain")
        store.remove(CLAIMS, "n/of-no-pod")
        store.put(TEMPLATES, template())
        store.put(PODS, pod(gpu=BY_TEMPLATE))
        await rest(store)
        assert len(claims(store)) == 2
    assert caplog.messages == []


async def test_generated_claims_are_reported_again_if_the_status_lacks_them(store: MeteredStore) -> None:
    store.put(TEMPLATES, template())
    store.put(PODS, pod(a=BY_TEMPLATE, b=BY_TEMPLATE))
    async with controller(store):
        first = {item["name"]: item["resourceClaimName"] for item in statuses(store)}
        store.remove(CLAIMS, f"n/{first['a']}")
        store.put(PODS, pod(a=BY_TEMPLATE, b=BY_TEMPLATE))
        await rest(store)
        second = {item["name"]: item["resourceClaimName"] for item in statuses(store)}
        assert len(claims(store)) == 2
    assert second["b"] == first["b"]
    assert second["a"] != first["a"]


def statuses(store: MeteredStore) -> list[Object]:
    found: list[Object] = store.read(PODS, "n/p")["status"]["resourceClaimStatuses"]
    return found


async def test_statuses_of_other_claims_remain(store: MeteredStore) -> None:
    store.put(TEMPLATES, template())
    found = pod(a=BY_TEMPLATE, b=BY_TEMPLATE)
    found["status"]["resourceClaimStatuses"] = [{"name": "b"}, {"name": "a", "resourceClaimName": "missing"}]
    store.put(PODS, found)
    async with controller(store):
        assert [item["name"] for item in statuses(store)] == ["b", "a"]
        assert statuses(store)[1]["resourceClaimName"] != "missing"


@pytest.mark.parametrize("status", [{"phase": "Pending"}, None])
async def test_names_are_not_reported_to_another_pod(store: MeteredStore, status: Object | None) -> None:
    def replace(collection: str, key: str) -> None:
        if collection == PODS:
            store.before_update = None
            other = pod(a=BY_TEMPLATE)
            other["metadata"]["uid"] = "another"
            store.put(PODS, {**other, "status": {**(status or {}), "resourceClaimStatuses": [{"name": "a"}]}})

    store.put(TEMPLATES, template())
    store.put(PODS, {**pod(a=BY_TEMPLATE), "status": status})
    store.before_update = replace
    async with controller(store):
        assert statuses(store) == [{"name": "a"}]


@pytest.mark.parametrize("status", [{}, None])
async def test_names_are_reported_to_a_pod_without_status(store: MeteredStore, status: Object | None) -> None:
    store.put(TEMPLATES, template())
    store.put(PODS, {**pod(a=BY_TEMPLATE), "status": status})
    async with controller(store):
        assert [item["name"] for item in statuses(store)] == ["a"]


@pytest.mark.parametrize(("reason", "created"), [("Conflict", 1), ("NotFound", 0)])
async def test_rejected_claim_is_created_again_unless_something_is_missing(
    store: MeteredStore, reason: str, created: int
) -> None:
    count = 0

    def reject(collection: str, key: str) -> None:
        nonlocal count
        if collection == CLAIMS:
            count += 1
            if count == 1:
                raise ApiError(409, reason, "rejected", {})

    store.put(TEMPLATES, template())
    store.put(PODS, pod(gpu=BY_TEMPLATE))
    store.before_update = reject
    clock = FakeClock()
    async with controller(store, clock):
        await clock.advance(120)
        await rest(store)
        events = [store.read("core/events", record.key)["note"] for record in store.collection("core/events").select()]
    assert events == ["PodResourceClaim gpu: rejected"]
    assert len(claims(store)) == created


@pytest.mark.parametrize(("reason", "retried"), [("Conflict", False), ("NotFound", False), ("InternalError", True)])
async def test_failed_deletion_of_a_generated_claim_is_retried(
    store: MeteredStore, caplog: pytest.LogCaptureFixture, reason: str, *, retried: bool
) -> None:
    def reject(collection: str, key: str) -> None:
        if collection == CLAIMS and "deletionTimestamp" not in store.read(*(collection, key))["metadata"]:
            attempts.append(key)
            if len(attempts) == 2:  # The first update releases the claim.
                raise ApiError(500, reason, "rejected", {})

    attempts: list[str] = []
    clock = FakeClock()
    store.put(PODS, pod(node="n", phase="Succeeded"))
    store.put(CLAIMS, claim("mine", finalizers=[], ownerReferences=owned_by("p")))
    store.before_update = reject
    async with controller(store, clock):
        await clock.advance(60)
        await rest(store)
        assert (store.read(CLAIMS, "n/mine") is None) is retried


async def test_controller_waits_while_a_controller_manager_runs(store: MeteredStore) -> None:
    clock = FakeClock()
    spec = {
        "holderIdentity": "x",
        "leaseDurationSeconds": 15,
        "renewTime": clock.wall().strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
    }
    lease = {"metadata": {"name": "kube-controller-manager", "namespace": "kube-system"}, "spec": spec}
    store.put("coordination.k8s.io/leases", lease)
    store.put(TEMPLATES, template())
    store.put(PODS, pod(gpu=BY_TEMPLATE))
    async with controller(store):
        assert claims(store) == []


def test_pod_is_done_when_it_will_not_run() -> None:
    for phase, node, deleted, expected in (
        ("Running", "n", False, False),
        ("Pending", "", False, False),
        ("Pending", "", True, True),
        ("Running", "n", True, False),
        ("Failed", "n", False, True),
        ("Succeeded", "", False, True),
    ):
        found = pod(node=node, phase=phase)
        if deleted:
            found["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        assert is_done(found) is expected, (phase, node, deleted)


def test_long_names_are_shortened_in_proportion() -> None:
    for name, of, expected in (
        ("p", "c", "p-c-"),
        ("p" * 50, "c" * 5, f"{'p' * 50}-{'c' * 5}-"),
        ("p" * 51, "c" * 5, f"{'p' * 50}-{'c' * 4}"),
        ("p" * 100, "c" * 100, f"{'p' * 28}-{'c' * 28}"),
    ):
        assert generated_base(name, of) == expected


def test_latest_served_version_of_claims_is_used() -> None:
    found = device_resources(REGISTRY, Identity())
    assert found is not None
    assert found.version == "v1"
    assert device_resources(build_registry(parse([])), Identity()) is None
