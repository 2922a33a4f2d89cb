"""Tests for changes of resource claims: allocation, reservations, release and deallocation."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.apimachinery import objects
from apiserver_stub.controllers.devices import writes
from apiserver_stub.controllers.devices.writes import DeviceNames
from nodeagent.base.identity import Identity
from tests.unit.apiserver_stub.controllers.harness import MeteredStore, store

__all__ = ["store"]
Object = dict[str, Any]
NAMES, KEY = DeviceNames.of(Identity()), "n/c"
CLAIMS, FINALIZER = NAMES.claims, NAMES.finalizer
ALLOCATION: Object = {"devices": {"results": []}}
DEVICES: Object = {"allocation": ALLOCATION, "devices": [], "other": 1}
DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


def pod(name: str = "p") -> Object:
    return {"metadata": {"name": name, "namespace": "n", "uid": f"uid-{name}"}}


def users(*names: str) -> list[Object]:
    return [{"resource": "pods", "name": name, "uid": f"uid-{name}"} for name in names]


def put(store: MeteredStore, status: Object | None = None, **metadata: Any) -> Object:
    """Store a claim and return it as a controller sees it."""
    obj: Object = {"metadata": {"name": "c", "namespace": "n", "uid": "c", **metadata}, "spec": {}}
    store.put(CLAIMS, obj if status is None else {**obj, "status": status})
    found: Object = store.read(CLAIMS, KEY)
    return found


@pytest.mark.parametrize(
    ("status", "metadata", "allocated"),
    [
        (None, {}, True),
        ({}, {"finalizers": ["x"]}, True),
        ({}, {"finalizers": [FINALIZER]}, True),
        ({"allocation": {"devices": {}}}, {}, False),
        ({}, {**DELETED, "finalizers": ["x"]}, False),
    ],
)
async def test_free_claim_is_allocated_and_reserved(
    store: MeteredStore, status: Object | None, metadata: Object, *, allocated: bool
) -> None:
    claim = put(store, status, **metadata)
    assert await writes.allocate(store, NAMES, claim, ALLOCATION, pod()) is allocated  # type: ignore[arg-type]
    found = store.read(CLAIMS, KEY)
    if allocated:
        assert found["status"] == {"allocation": ALLOCATION, "reservedFor": users("p")}
        assert found["metadata"]["finalizers"] == list(dict.fromkeys([*metadata.get("finalizers", []), FINALIZER]))
    else:
        assert found == claim


async def test_deleted_claim_is_not_allocated(store: MeteredStore) -> None:
    claim = put(store)
    store.remove(CLAIMS, KEY)
    assert not await writes.allocate(store, NAMES, claim, ALLOCATION, pod())  # type: ignore[arg-type]
    assert store.read(CLAIMS, KEY) is None


@pytest.mark.parametrize(
    ("status", "metadata", "reserved", "expected"),
    [
        ({"allocation": ALLOCATION}, {}, True, ["p"]),
        ({"allocation": ALLOCATION, "reservedFor": users("q")}, {}, True, ["q", "p"]),
        ({"allocation": ALLOCATION, "reservedFor": users("p")}, {}, True, ["p"]),
        ({"allocation": ALLOCATION, "reservedFor": users(*map(str, range(256)))}, {}, False, None),
        ({"allocation": ALLOCATION}, {**DELETED, "finalizers": ["x"]}, False, None),
        ({}, {}, False, None),
        (None, {}, False, None),
    ],
)
async def test_allocated_claim_is_reserved(
    store: MeteredStore, status: Object | None, metadata: Object, *, reserved: bool, expected: list[str] | None
) -> None:
    claim = put(store, status, **metadata)
    assert await writes.reserve_claim(store, NAMES, claim, pod()) is reserved  # type: ignore[arg-type]
    found = store.read(CLAIMS, KEY)
    if expected is None:
        assert found == claim
    else:
        assert found["status"]["reservedFor"] == users(*expected)


@pytest.mark.parametrize(
    ("reserved", "metadata", "remaining", "finalizers"),
    [
        (["p"], {"finalizers": [FINALIZER]}, None, None),
        (["p"], {"finalizers": [FINALIZER, "x"]}, None, ["x"]),
        (["p", "q"], {"finalizers": [FINALIZER]}, ["q"], [FINALIZER]),
        (["q"], {"finalizers": [FINALIZER]}, ["q"], [FINALIZER]),
        ([], {"finalizers": [FINALIZER]}, [], [FINALIZER]),
        ([], {"finalizers": [FINALIZER, "x"], **DELETED}, None, ["x"]),
    ],
)
async def test_claim_is_deallocated_after_its_last_consumer(
    store: MeteredStore,
    reserved: list[str],
    metadata: Object,
    remaining: list[str] | None,
    finalizers: list[str] | None,
) -> None:
    """The pod ``p`` needs the claim no longer; ``None`` as the remaining consumers is a claim without allocation."""
    status = {
        "allocation": ALLOCATION,
        "devices": [],
        "other": 1,
        **({"reservedFor": users(*reserved)} if reserved else {}),
    }
    claim = put(store, status, **metadata)
    result = await writes.release_claim(store, NAMES, claim, lambda item: item["name"] != "p")  # type: ignore[arg-type]
    found = store.read(CLAIMS, KEY)
    assert result is not None
    assert result["status"] == found["status"]
    if remaining is None:
        assert found["status"] == {"other": 1}
    else:
        assert found["status"] == {**status, **({"reservedFor": users(*remaining)} if remaining else {})}
    assert found["metadata"].get("finalizers") == finalizers


async def test_deleted_claim_is_removed_with_its_last_consumer(store: MeteredStore) -> None:
    claim = put(store, {"allocation": ALLOCATION, "reservedFor": users("p")}, finalizers=[FINALIZER], **DELETED)
    await writes.release_claim(store, NAMES, claim, lambda _: False)  # type: ignore[arg-type]
    assert store.read(CLAIMS, KEY) is None
    assert await writes.release_claim(store, NAMES, claim, lambda _: False) is None  # type: ignore[arg-type]


async def test_consumers_of_a_claim_without_finalizer_are_removed(store: MeteredStore) -> None:
    claim = put(store, {"allocation": ALLOCATION, "reservedFor": users("p")})
    await writes.release_claim(store, NAMES, claim, lambda _: False)  # type: ignore[arg-type]
    assert store.read(CLAIMS, KEY)["status"] == {"allocation": ALLOCATION}


@pytest.mark.parametrize(
    ("status", "finalizers", "expected", "left"),
    [
        (
            {"allocation": ALLOCATION, "devices": [], "reservedFor": users("p"), "other": 1},
            [FINALIZER, "x"],
            True,
            ["x"],
        ),
        ({**DEVICES, "reservedFor": []}, [FINALIZER], True, None),
        ({"allocation": ALLOCATION, "other": 1}, None, True, None),
        ({"allocation": ALLOCATION, "reservedFor": users("p", "q")}, [FINALIZER], False, [FINALIZER]),
    ],
)
async def test_claim_of_one_pod_is_deallocated(
    store: MeteredStore, status: Object, finalizers: list[str] | None, *, expected: bool, left: list[str] | None
) -> None:
    claim = put(store, status, **({"finalizers": finalizers} if finalizers else {}))
    await writes.deallocate(store, NAMES, claim, pod())  # type: ignore[arg-type]
    found = store.read(CLAIMS, KEY)
    assert found["status"] == ({"other": 1} if expected else status)
    assert found["metadata"].get("finalizers") == left


async def test_claim_for_extended_resources_has_a_free_name(
    store: MeteredStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    suffixes = iter("aab")
    monkeypatch.setattr(objects, "name_suffix", lambda: next(suffixes))
    names = [await writes.create_extended(store, NAMES, {}, ALLOCATION, pod()) for _ in range(2)]  # type: ignore[arg-type]

    assert names == ["p-extended-resources-a", "p-extended-resources-b"]
    found = store.read(CLAIMS, f"n/{names[0]}")
    assert found["status"] == {"allocation": ALLOCATION, "reservedFor": users("p")}
    assert found["metadata"]["ownerReferences"][0]["uid"] == "uid-p"


@pytest.mark.parametrize("uid", ["c", "another"])
async def test_only_the_same_claim_is_deleted(store: MeteredStore, uid: str) -> None:
    claim = put(store)
    put(store, uid=uid)
    await writes.delete_extended(store, NAMES, claim)  # type: ignore[arg-type]
    assert (store.read(CLAIMS, KEY) is None) is (uid == "c")
