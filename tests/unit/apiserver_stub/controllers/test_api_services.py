"""Tests for the registration of API services: objects of served group versions, others are unmanaged."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.controllers.api_services import Registration
from apiserver_stub.options import parse
from apiserver_stub.server.kinds import build_registry
from nodeagent.base.identity import Identity
from nodeagent.testing import FakeClock
from tests.unit.apiserver_stub.authz.conftest import Memory
from tests.unit.apiserver_stub.controllers.harness import MeteredStore, rest, running

SERVICES = "apiregistration.k8s.io/apiservices"
LABEL = "kube-aggregator.kubernetes.io/automanaged"
SHARED = "--store-servers=http://127.0.0.1:1"


@pytest.fixture
def store() -> Memory:
    return Memory()


def registration(store: Memory, *arguments: str) -> Registration:
    options = parse(list(arguments))
    return Registration(store, build_registry(options), shares_store=bool(options.store_servers), identity=Identity())  # type: ignore[arg-type]


def names(store: Memory) -> list[str]:
    return [record.key for record in store.collection(SERVICES).select()]


def foreign(name: str = "v1.example.com", label: str = "", **spec: Any) -> dict[str, Any]:
    version, _, group = name.partition(".")
    labels = {"labels": {LABEL: label}} if label else {}
    return {"metadata": {"name": name, "uid": name, **labels}, "spec": {"group": group, "version": version, **spec}}


async def test_each_group_version_is_registered_once(store: Memory) -> None:
    await registration(store).register()

    found = store.read(SERVICES, "v1.events.k8s.io")
    assert found["metadata"]["labels"] == {LABEL: "onstart"}
    assert found["spec"] == {
        "group": "events.k8s.io",
        "version": "v1",
        "groupPriorityMinimum": 17750,
        "versionPriority": 15,
    }
    assert found["status"]["conditions"][0]["status"] == "True"
    assert store.read(SERVICES, "v1.")["spec"] == {"version": "v1", "groupPriorityMinimum": 18000, "versionPriority": 1}
    assert "v1.apiregistration.k8s.io" not in names(store)

    writes = store.writes
    await registration(store).register()
    assert store.writes == writes


async def test_deleted_or_modified_object_is_restored(store: Memory) -> None:
    kept = registration(store)
    await kept.register()
    store.remove(SERVICES, "v1.policy")
    changed = store.read(SERVICES, "v1.")
    store.put(SERVICES, {**changed, "spec": {**changed["spec"], "groupPriorityMinimum": 5}})

    await kept.register()

    assert store.read(SERVICES, "v1.policy")["status"]["conditions"]
    again = store.read(SERVICES, "v1.")
    assert again["spec"]["groupPriorityMinimum"] == 18000
    assert again["metadata"]["uid"] == changed["metadata"]["uid"]


async def test_unmanaged_object_is_not_modified(store: Memory) -> None:
    store.put(SERVICES, foreign("v1.policy", groupPriorityMinimum=5, versionPriority=5))
    await registration(store).register()
    assert store.read(SERVICES, "v1.policy")["spec"]["groupPriorityMinimum"] == 5


async def test_object_of_an_unserved_version_is_deleted(store: Memory) -> None:
    await registration(store).register()
    store.put(SERVICES, foreign())

    await registration(store, "--runtime-config=policy/v1=false").register()

    assert "v1.policy" not in names(store)
    assert "v1.example.com" in names(store)  # not managed by a server


async def test_version_served_by_another_server_is_kept(store: Memory) -> None:
    store.put(SERVICES, foreign("v1.apps", "onstart"))
    await registration(store, SHARED).register()
    assert "v1.apps" in names(store)


async def test_object_with_a_service_is_not_modified(store: Memory) -> None:
    stored = foreign("v1.example.com", "onstart", service={"namespace": "n", "name": "s"})
    store.put(SERVICES, stored)

    await registration(store).register()

    assert store.read(SERVICES, "v1.example.com")["spec"] == stored["spec"]


async def test_disabled_resource_writes_nothing(store: Memory) -> None:
    kept = registration(store, "--runtime-config=apiregistration.k8s.io/v1=false")
    await kept.register()
    await kept.keep()
    assert store.writes == 0


async def test_running_server_restores_its_objects(clock: FakeClock) -> None:
    store = MeteredStore()
    kept = Registration(store, build_registry(parse([])), identity=Identity(), clock=clock)  # type: ignore[arg-type]
    await kept.register()
    async with running(store, kept.keep()):
        await rest(store)
        store.remove(SERVICES, "v1.policy")
        changed = store.read(SERVICES, "v1.apps")
        store.put(SERVICES, {**changed, "spec": {**changed["spec"], "versionPriority": 5}})
        store.put(SERVICES, foreign("v1.example.com"))
        store.put(SERVICES, foreign("v2.example.com", "onstart"))
        writes = store.writes
        await rest(store)
        assert store.writes == writes + 3
        store.remove(SERVICES, "v1.example.com")
        await rest(store)
        assert store.writes == writes + 4
        assert store.read(SERVICES, "v1.policy") is not None
        assert store.read(SERVICES, "v1.apps")["spec"] == changed["spec"]
        assert store.read(SERVICES, "v2.example.com") is None


async def test_object_that_another_client_reverts_is_restored_rarely(clock: FakeClock) -> None:
    store, restored = MeteredStore(), 0
    kept = Registration(store, build_registry(parse([])), identity=Identity(), clock=clock)  # type: ignore[arg-type]
    await kept.register()
    async with running(store, kept.keep()):
        for _ in range(40):
            found = store.read(SERVICES, "v1.apps")
            if found["spec"]["versionPriority"] != 5:
                restored += 1
                store.put(SERVICES, {**found, "spec": {**found["spec"], "versionPriority": 5}})
            await clock.advance(0.1)
    assert 1 < restored < 20
