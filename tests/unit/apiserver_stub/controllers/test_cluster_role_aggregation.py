"""Tests for aggregated cluster roles."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from apiserver_stub.authz.rbac import RbacNames
from apiserver_stub.controllers.cluster_role_aggregation import aggregate_roles, keep_aggregated
from apiserver_stub.storage import StoreUnavailable
from nodeagent.base.identity import Identity
from nodeagent.testing import FakeClock
from tests.unit.apiserver_stub.authz.conftest import Memory, rule

RBAC = RbacNames.of(Identity())

POD, NODE, EVENT = rule("get", "pods"), rule("get", "nodes"), rule("get", "events")


@pytest.fixture
def store() -> Any:
    return Memory()


def gathering(store: Any, name: str, *selectors: dict[str, Any], labels: dict[str, str] | None = None) -> None:
    metadata = {"name": name, "labels": labels or {}}
    role = {"metadata": metadata, "aggregationRule": {"clusterRoleSelectors": list(selectors)}, "rules": [EVENT]}
    store.put(RBAC.cluster_roles, role)


def rules(store: Any, name: str) -> Any:
    return store.read(RBAC.cluster_roles, name)["rules"]


async def test_rules_are_replaced_by_those_of_the_selected_roles(store: Any) -> None:
    store.role("b", NODE, POD, labels={"x": "1"})
    store.role("a", POD, labels={"tier": "web"})
    store.role("c", EVENT)
    by_term = {"matchExpressions": [{"key": "tier", "operator": "In", "values": ["web", "db"]}]}
    gathering(store, "all", {"matchLabels": {"x": "1"}}, by_term)

    await aggregate_roles(store, Identity())

    assert rules(store, "all") == [POD, NODE]


async def test_aggregated_roles_can_be_aggregated(store: Any) -> None:
    gathering(store, "a-top", {"matchLabels": {"level": "2"}})
    gathering(store, "b-middle", {"matchLabels": {"level": "1"}}, labels={"level": "2"})
    store.role("c-leaf", POD, labels={"level": "1"})

    await aggregate_roles(store, Identity())

    assert rules(store, "a-top") == rules(store, "b-middle") == [POD]


async def test_mutual_aggregation_converges(store: Any) -> None:
    gathering(store, "a", {})
    gathering(store, "b", {})
    store.role("c", POD)

    await aggregate_roles(store, Identity())
    writes = store.writes
    await aggregate_roles(store, Identity())

    assert store.writes == writes
    assert POD in rules(store, "a")


async def test_roles_are_aggregated_again_when_a_role_changes(store: Any, clock: FakeClock) -> None:
    keeping = asyncio.ensure_future(keep_aggregated(store, clock=clock, identity=Identity()))
    await clock.advance(0)
    gathering(store, "all", {"matchLabels": {"x": "1"}})
    store.role("a", POD, labels={"x": "1"})
    await clock.advance(1)
    assert rules(store, "all") == [POD]

    store.remove(RBAC.cluster_roles, "a")
    await clock.advance(1)
    assert rules(store, "all") == []
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)


async def test_startup_makes_a_bounded_number_of_passes_over_a_long_chain(store: Any, clock: FakeClock) -> None:
    length = 30
    for number in range(length):
        gathering(store, f"r{number:02}", {"matchLabels": {"level": f"{number + 1}"}}, labels={"level": f"{number}"})
    store.role(f"r{length}", POD, labels={"level": f"{length}"})

    await aggregate_roles(store, Identity())
    assert store.writes <= 4 * length
    keeping = asyncio.ensure_future(keep_aggregated(store, clock=clock, identity=Identity()))
    for _ in range(60):
        await clock.advance(1)
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)

    assert rules(store, "r00") == [POD]


async def test_failed_write_is_retried(store: Any, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    update = store.update

    async def fail(*_: Any) -> Any:
        raise StoreUnavailable("disk full")

    monkeypatch.setattr(store, "update", fail)
    keeping = asyncio.ensure_future(keep_aggregated(store, clock=clock, identity=Identity()))
    await clock.advance(0)
    gathering(store, "all", {"matchLabels": {"x": "1"}})
    store.role("a", POD, labels={"x": "1"})
    await clock.advance(0.5)
    assert rules(store, "all") == [EVENT]

    monkeypatch.setattr(store, "update", update)
    await clock.advance(1)
    assert rules(store, "all") == [POD]
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)


async def test_changed_selectors_and_new_roles_are_aggregated(store: Any, clock: FakeClock) -> None:
    keeping = asyncio.ensure_future(keep_aggregated(store, clock=clock, identity=Identity()))
    gathering(store, "all", {"matchLabels": {"x": "1"}})
    await clock.advance(1)
    store.role("a", POD, labels={"x": "1"})
    await clock.advance(1)
    added = rules(store, "all")
    store.role("b", NODE, labels={"x": "2"})
    gathering(store, "all", {"matchLabels": {"x": "2"}})
    await clock.advance(1)
    changed = rules(store, "all")
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    assert (added, changed) == ([POD], [NODE])


async def test_role_that_becomes_a_plain_one_is_not_changed(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    update = store.update

    async def change_before(*arguments: Any) -> Any:
        store.role("all", EVENT)
        return await update(*arguments)

    store.role("a", POD, labels={"x": "1"})
    gathering(store, "all", {"matchLabels": {"x": "1"}})
    monkeypatch.setattr(store, "update", change_before)
    await aggregate_roles(store, Identity())
    assert rules(store, "all") == [EVENT]
