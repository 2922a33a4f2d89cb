"""Tests for the identity leases of API servers."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from apiserver_stub.apimachinery.objects import format_time
from apiserver_stub.controllers.server_identity import ServerIdentity, server_name
from nodeagent.base.identity import Identity
from nodeagent.testing import FakeClock
from tests.unit.apiserver_stub.controllers.harness import MeteredStore, rest, running, store

__all__ = ["store"]

LEASES, NAMESPACE = "coordination.k8s.io/leases", "kube-system"


@pytest.mark.row("gate.APIServerIdentity")
async def test_server_holds_a_lease_that_it_renews(store: MeteredStore, clock: FakeClock) -> None:
    async with running(store, ServerIdentity(store, Identity(), "host", clock).run()):
        await rest(store)
        first, writes = store.read(LEASES, f"{NAMESPACE}/{server_name('host')}"), store.writes
        await clock.advance(11)
        await rest(store)

    assert first["metadata"]["labels"] == {
        "apiserver.kubernetes.io/identity": "kube-apiserver",
        "kubernetes.io/hostname": "host",
    }
    assert first["spec"]["holderIdentity"].startswith(f"{server_name('host')}_")
    assert first["spec"]["leaseDurationSeconds"] == 3600
    assert store.writes == writes + 1


@pytest.mark.parametrize(
    ("address", "expected"),
    [("", {"a": "b"}), ("10.0.0.1:6443", {"a": "b", "kubernetes.io/peer-advertise-address": "10.0.0.1:6443"})],
)
async def test_lease_advertises_the_address_for_peers(
    store: MeteredStore, clock: FakeClock, address: str, expected: dict[str, str]
) -> None:
    metadata = {"name": server_name("host"), "namespace": NAMESPACE, "annotations": {"a": "b"}}
    store.put(LEASES, {"metadata": metadata})

    async with running(store, ServerIdentity(store, Identity(), "host", clock, peer_address=address).run()):
        await rest(store)
        lease = store.read(LEASES, f"{NAMESPACE}/{server_name('host')}")

    assert lease["metadata"]["annotations"] == expected


def test_name_of_a_server_depends_on_its_host() -> None:
    names = {server_name(host) for host in ("a", "b")}

    assert len(names) == 2
    assert all(name.startswith("apiserver-") and len(name) == 36 and name.islower() for name in names)


async def test_only_expired_leases_of_api_servers_are_removed(store: MeteredStore, clock: FakeClock) -> None:
    label = {"apiserver.kubernetes.io/identity": "kube-apiserver"}

    def put(name: str, age_hours: float, labels: dict[str, Any]) -> None:
        renewed = format_time(clock.wall() - timedelta(hours=age_hours))
        metadata = {"name": name, "namespace": NAMESPACE, "labels": labels}
        store.put(LEASES, {"metadata": metadata, "spec": {"leaseDurationSeconds": 3600, "renewTime": renewed}})

    put("apiserver-gone", 2, label)
    put("apiserver-other", 0.5, label)
    put("apiserver-foreign", 2, {})
    put("kube-scheduler", 2, {})

    async with running(store, ServerIdentity(store, Identity(), "host", clock).run()):
        await rest(store)

    left = {record.key.partition("/")[2] for record in store.collection(LEASES).select()}
    assert left == {"apiserver-other", "apiserver-foreign", "kube-scheduler", server_name("host")}
