"""Tests for the contents of namespaces: the default service account and the root CA config map."""

from __future__ import annotations

from typing import Any

from apiserver_stub.apimachinery.objects import format_time
from apiserver_stub.controllers.namespace_contents import NamespaceContents, fill_namespace
from nodeagent.base.identity import Identity
from nodeagent.testing import FakeClock
from tests.unit.apiserver_stub.controllers.harness import MeteredStore, running, store

__all__ = ["store"]

NAMESPACES, MAPS, ACCOUNTS = "core/namespaces", "core/configmaps", "core/serviceaccounts"
LEASES = "coordination.k8s.io/leases"
ROOT_CA = "n/kube-root-ca.crt"


def namespace(name: str = "n", **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": name, **metadata}, "status": {"phase": "Active"}}


def root_ca(content: str) -> dict[str, Any]:
    return {"metadata": {"name": "kube-root-ca.crt", "namespace": "n", "uid": "ca"}, "data": {"ca.crt": content}}


def renew(store: MeteredStore, clock: FakeClock, holder: str = "host_1") -> None:
    """Renew the lease of kube-controller-manager."""
    spec = {"holderIdentity": holder, "renewTime": format_time(clock.wall()), "leaseDurationSeconds": 15}
    store.put(LEASES, {"metadata": {"name": "kube-controller-manager", "namespace": "kube-system"}, "spec": spec})


def content(store: MeteredStore) -> str | None:
    found = store.read(MAPS, ROOT_CA)
    return None if found is None else found["data"]["ca.crt"]


def contents(store: MeteredStore, clock: FakeClock, *, restores_ca: bool = True) -> NamespaceContents:
    return NamespaceContents(store, Identity(), "CA", restores_ca=restores_ca, clock=clock)


async def test_namespace_gets_its_contents(store: MeteredStore, clock: FakeClock) -> None:
    async with running(store, contents(store, clock).run()):
        store.put(NAMESPACES, namespace())
        await clock.advance(1)

    assert store.read(ACCOUNTS, "n/default") is not None
    assert content(store) == "CA"


async def test_deleted_or_modified_contents_are_restored(store: MeteredStore, clock: FakeClock) -> None:
    store.put(NAMESPACES, namespace())
    async with running(store, contents(store, clock).run()):
        await clock.advance(1)
        store.remove(ACCOUNTS, "n/default")
        store.remove(MAPS, ROOT_CA)
        await clock.advance(1)
        assert store.read(ACCOUNTS, "n/default") is not None
        assert content(store) == "CA"

        store.put(MAPS, root_ca("other"))
        await clock.advance(1)

    assert content(store) == "CA"


async def test_contents_of_a_terminating_namespace_are_not_recreated(store: MeteredStore, clock: FakeClock) -> None:
    store.put(NAMESPACES, namespace(deletionTimestamp="2026-01-01T00:00:00Z"))
    async with running(store, contents(store, clock).run()):
        await clock.advance(1)
    assert store.writes == 1


async def test_root_ca_is_not_written_next_to_kube_controller_manager(store: MeteredStore, clock: FakeClock) -> None:
    renew(store, clock)
    store.put(NAMESPACES, namespace())
    await fill_namespace(store, Identity(), "CA", "n", clock.wall())
    async with running(store, NamespaceContents(store, Identity(), "CA", clock=clock).run()):
        await clock.advance(5)
        assert content(store) is None
        store.put(MAPS, root_ca("of the controller manager"))
        for _ in range(20):
            await clock.advance(5)
            renew(store, clock)
        assert content(store) == "of the controller manager"

        await clock.advance(150)

    assert content(store) == "CA"
    assert store.read(ACCOUNTS, "n/default") is not None


async def test_two_writers_of_the_root_ca_converge(store: MeteredStore, clock: FakeClock) -> None:
    store.put(NAMESPACES, namespace())
    fights = 0
    async with running(store, contents(store, clock).run()):
        for _ in range(600):
            await clock.advance(1)
            if content(store) == "CA":
                fights += 1
                store.put(MAPS, root_ca("other"))

    assert fights <= 25


async def test_server_of_a_shared_store_never_overwrites(store: MeteredStore, clock: FakeClock) -> None:
    store.put(NAMESPACES, namespace())
    store.put(MAPS, root_ca("of another server"))
    async with running(store, contents(store, clock, restores_ca=False).run()):
        await clock.advance(5)
    assert content(store) == "of another server"
