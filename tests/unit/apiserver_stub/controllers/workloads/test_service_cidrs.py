"""Tests for the ServiceCIDR controller: finalizers, conditions and deletion of ranges."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from apiserver_stub.apimachinery import objects
from apiserver_stub.controllers.manager import ControllerManager
from apiserver_stub.controllers.workloads.service_cidrs import GRACE_SECONDS, ServiceCidrs
from apiserver_stub.feature_gates import build_gates
from apiserver_stub.kinds.address_objects import AddressObjects
from apiserver_stub.options import parse
from apiserver_stub.server.kinds import build_registry
from nodeagent.base.identity import Identity
from nodeagent.base.release import Release
from nodeagent.testing import FakeClock
from tests.unit.apiserver_stub.controllers.harness import MeteredStore, context, rest, running, store

__all__ = ["store"]

RELEASE = Release(1, 36)
KINDS = AddressObjects.of(Identity(), RELEASE)
REGISTRY = build_registry(parse(["--compatibility-version=1.36"]))
FINALIZER = "networking.k8s.io/service-cidr-finalizer"


class Ranges:
    """ServiceCIDRs and IPAddresses in a store with the running controller."""

    def __init__(self, store: MeteredStore, clock: FakeClock) -> None:
        self.store, self.clock = store, clock

    async def put(self, name: str, *blocks: str) -> None:
        obj = {"metadata": {"name": name, "uid": name}, "spec": {"cidrs": list(blocks)}, "status": {}}
        self.store.put(KINDS.ranges, {"kind": "ServiceCIDR", "apiVersion": "networking.k8s.io/v1", **obj})
        await rest(self.store)

    async def delete(self, name: str) -> None:
        obj = self.read(name)
        obj["metadata"]["deletionTimestamp"] = objects.format_time(self.clock.wall())
        self.store.put(KINDS.ranges, obj)
        await rest(self.store)

    async def allocate(self, name: str) -> None:
        self.store.put(KINDS.addresses, KINDS.address(name, "ns", "s"))
        await rest(self.store)

    async def advance(self, seconds: float) -> None:
        await self.clock.advance(seconds)
        await rest(self.store)

    def read(self, name: str) -> Any:
        return self.store.read(KINDS.ranges, name)

    def ready(self, name: str) -> list[tuple[str, str]]:
        return [(item["status"], item["reason"]) for item in self.read(name)["status"]["conditions"]]


@asynccontextmanager
async def ranges(store: MeteredStore, clock: FakeClock) -> AsyncIterator[Ranges]:
    gates = build_gates({}, release=RELEASE)
    manager = ControllerManager(
        [ServiceCidrs], context(store), REGISTRY, Identity(), gates, clock, 3600, release=RELEASE
    )
    async with running(store, manager.run()):
        yield Ranges(store, clock)


async def test_range_gets_a_finalizer_and_is_ready(store: MeteredStore, clock: FakeClock) -> None:
    async with ranges(store, clock) as found:
        await found.put("a", "10.0.0.0/24")

        assert found.read("a")["metadata"]["finalizers"] == [FINALIZER]
        assert found.ready("a") == [("True", "")]


async def test_unused_range_is_deleted_after_a_grace_period(store: MeteredStore, clock: FakeClock) -> None:
    async with ranges(store, clock) as found:
        await found.put("a", "10.0.0.0/24")
        await found.delete("a")
        await found.advance(GRACE_SECONDS - 1)
        assert found.read("a") is not None

        await found.advance(1)
        assert found.read("a") is None


@pytest.mark.parametrize("finalizers", [["x", FINALIZER], [FINALIZER, "x"]])
async def test_other_finalizers_of_a_deleted_range_remain(
    store: MeteredStore, clock: FakeClock, finalizers: list[str]
) -> None:
    async with ranges(store, clock) as found:
        await found.put("a", "10.0.0.0/24")
        obj = found.read("a")
        obj["metadata"]["finalizers"] = finalizers
        store.put(KINDS.ranges, obj)
        await found.delete("a")
        await found.advance(GRACE_SECONDS)
        assert found.read("a")["metadata"]["finalizers"] == ["x"]


async def test_condition_is_written_only_when_it_changes(store: MeteredStore, clock: FakeClock) -> None:
    async with ranges(store, clock) as found:
        await found.put("a", "10.0.0.0/24")
        first, writes = found.read("a")["status"], store.writes
        await found.advance(5)
        store.put(KINDS.ranges, {**found.read("a"), "metadata": {**found.read("a")["metadata"], "labels": {"a": "b"}}})
        await found.advance(5)
        assert store.writes == writes + 1
    assert found.read("a")["status"] == first


@pytest.mark.parametrize(
    ("other", "address", "kept"),
    [
        (["10.1.0.0/24"], "10.0.0.5", True),
        (["10.1.0.0/24", "fd01::/112"], "10.0.0.5", True),
        (["10.1.0.0/24", "fd01::/112"], "fd00::5", True),
        (["10.0.0.0/16", "fd01::/112"], "fd00::5", True),
        (["10.0.0.0/16", "fd01::/112"], "10.0.0.5", False),
        (["10.0.0.0/25"], "10.0.0.5", False),
        (["10.0.0.0/25"], "10.0.0.200", True),
        (["10.1.0.0/24"], "10.2.0.5", False),
        (["10.1.0.0/24"], "10.1.0.5", False),
        (["10.1.0.0/24"], "::a00:5", False),  # The same number as 10.0.0.5.
        (["0.0.0.0/32"], "10.0.0.0", False),
    ],
)
async def test_range_is_kept_for_addresses_that_no_other_range_has(
    store: MeteredStore, clock: FakeClock, other: list[str], address: str, *, kept: bool
) -> None:
    async with ranges(store, clock) as found:
        await found.put("a", "10.0.0.0/24", "fd00::/112")
        await found.put("b", *other)
        await found.allocate(address)
        await found.delete("a")
        await found.advance(2 * GRACE_SECONDS)
        assert (found.read("a") is not None) is kept


async def test_range_with_addresses_is_kept_until_they_are_released(store: MeteredStore, clock: FakeClock) -> None:
    async with ranges(store, clock) as found:
        await found.put("a", "10.0.0.0/24")
        await found.allocate("10.0.0.5")
        await found.delete("a")
        await found.advance(2 * GRACE_SECONDS)
        assert found.ready("a") == [("False", "Terminating")]

        store.remove(KINDS.addresses, "10.0.0.5")
        await found.advance(1)
        assert found.read("a") is None


async def test_address_of_another_manager_does_not_keep_a_range(store: MeteredStore, clock: FakeClock) -> None:
    address = KINDS.address("10.0.0.5", "ns", "s")
    address["metadata"]["labels"] = {}

    async with ranges(store, clock) as found:
        await found.put("a", "10.0.0.0/24")
        store.put(KINDS.addresses, address)
        await found.delete("a")
        await found.advance(GRACE_SECONDS + 1)

        assert found.read("a") is None


async def test_range_with_addresses_inside_another_range_is_deleted(store: MeteredStore, clock: FakeClock) -> None:
    async with ranges(store, clock) as found:
        await found.put("a", "10.0.0.0/24")
        await found.allocate("10.0.0.5")
        await found.delete("a")
        await found.advance(2 * GRACE_SECONDS)
        await found.put("b", "10.0.0.0/16")
        await found.advance(1)

        assert found.read("a") is None
        assert found.ready("b") == [("True", "")]
