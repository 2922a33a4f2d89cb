"""Tests for the system namespaces and priority classes."""

from __future__ import annotations

import asyncio

import pytest

from apiserver_stub.controllers import namespaces
from apiserver_stub.controllers.namespaces import create_system_objects, run_system_objects_controller
from apiserver_stub.storage import StoreUnavailable
from nodeagent.base.identity import Identity
from tests.unit.apiserver_stub.authz.conftest import Memory

NAMESPACES = "core/namespaces"


async def test_failure_to_create_system_namespaces_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(*_: object) -> None:
        raise StoreUnavailable("the disk is full")

    monkeypatch.setattr(namespaces, "_CHECK_SECONDS", 0)
    monkeypatch.setattr(namespaces, "provide_namespace", fail)
    task = asyncio.ensure_future(run_system_objects_controller(Memory(), Identity(), "CA"))
    while not caplog.messages:
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    text = "unable to create required kubernetes system Namespace kube-system: the disk is full"
    assert text in caplog.messages


async def test_deleted_system_objects_are_recreated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namespaces, "_CHECK_SECONDS", 0)
    store = Memory()
    await create_system_objects(store, Identity(), "CA")
    made = store.writes
    await create_system_objects(store, Identity(), "CA")
    assert store.writes == made

    lost = [(NAMESPACES, "kube-node-lease"), ("scheduling.k8s.io/priorityclasses", "system-node-critical")]
    for collection, key in lost:
        store.remove(collection, key)
    task = asyncio.ensure_future(run_system_objects_controller(store, Identity(), "CA"))
    while any(store.read(collection, key) is None for collection, key in lost):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert store.read(*lost[0])["status"] == {"phase": "Active"}
    description = "Used for system critical pods that must not be moved from their current node."
    assert store.read(*lost[1])["description"] == description
