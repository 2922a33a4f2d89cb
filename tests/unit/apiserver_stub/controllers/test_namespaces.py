"""A deleted namespace goes once it is empty and nobody else holds it, and waits for those without a write."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from apiserver_stub.app import ApiServer
from apiserver_stub.controllers import namespaces
from apiserver_stub.controllers.namespaces import create_system_objects, empty_namespaces, keep_system_objects
from apiserver_stub.options import parse
from apiserver_stub.resources import build_registry
from apiserver_stub.resources.namespaces import NamespaceStrategy
from apiserver_stub.verbs.writing import finished
from tests.unit.apiserver_stub.authz.conftest import Memory

NAMESPACES = "core/namespaces"


def namespace(*spec: str, metadata: list[str] | None = None) -> dict[str, Any]:
    held = {"finalizers": metadata} if metadata else {}
    deleted = {"name": "gone", "uid": "1", "deletionTimestamp": "2026-01-01T00:00:00Z", **held}
    return {"metadata": deleted, "spec": {"finalizers": list(spec)}}


async def swept(store: Memory) -> None:
    """Let the controller look until it waits for a change."""
    options = parse([])
    server: Any = SimpleNamespace(options=options, store=store, registry=build_registry(options))
    server.positions = lambda *names: ApiServer.positions(server, *names)
    looks = 0
    waits = asyncio.Event()

    async def changed_since(positions: dict[str, int], **_: Any) -> None:
        nonlocal looks
        looks += 1
        if looks > 10 or server.positions(*positions) == positions:
            waits.set()
            await asyncio.Event().wait()

    server.changed_since = changed_since
    task = asyncio.ensure_future(empty_namespaces(server))
    await waits.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_an_empty_namespace_goes() -> None:
    store = Memory()
    store.put(NAMESPACES, namespace("kubernetes"))

    await swept(store)

    assert store.read(NAMESPACES, "gone") is None


@pytest.mark.parametrize(
    "held",
    [namespace("kubernetes", metadata=["example.com/hold"]), namespace("kubernetes", "example.com/hold")],
    ids=["metadata", "spec"],
)
async def test_one_that_somebody_else_holds_is_written_once(held: dict[str, Any]) -> None:
    store = Memory()
    store.put(NAMESPACES, held)

    await swept(store)

    assert "kubernetes" not in store.read(NAMESPACES, "gone")["spec"]["finalizers"]
    assert store.writes == 2


async def test_one_whose_empty_parts_were_left_out_is_let_alone() -> None:
    store = Memory()
    held = namespace(metadata=["example.com/hold"])
    del held["spec"]
    store.put(NAMESPACES, held)

    await swept(store)

    assert store.writes == 1


@pytest.mark.parametrize(
    ("old", "new", "goes"),
    [
        (namespace("kubernetes", metadata=["example.com/hold"]), namespace("kubernetes"), False),
        (namespace("kubernetes"), namespace(), True),
        (namespace(metadata=["example.com/hold"]), namespace(), True),
        (namespace("kubernetes", metadata=["example.com/hold"]), namespace(metadata=["example.com/hold"]), False),
    ],
)
def test_the_last_finalizer_of_either_kind_ends_it(old: dict[str, Any], new: dict[str, Any], *, goes: bool) -> None:
    assert finished(NamespaceStrategy(), new, old) is goes


async def test_what_the_system_cannot_do_without_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namespaces, "_CHECK_SECONDS", 0)
    store = Memory()
    server: Any = SimpleNamespace(store=store, ca_certificate="CA")
    await create_system_objects(server)
    made = store.writes
    await create_system_objects(server)
    assert store.writes == made

    lost = [
        (NAMESPACES, "kube-node-lease"),
        ("core/serviceaccounts", "default/default"),
        ("core/configmaps", "default/kube-root-ca.crt"),
        ("scheduling.k8s.io/priorityclasses", "system-node-critical"),
    ]
    for collection, key in lost:
        store.remove(collection, key)
    task = asyncio.ensure_future(keep_system_objects(server))
    while any(store.read(collection, key) is None for collection, key in lost):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert store.read(*lost[0])["status"] == {"phase": "Active"}
