"""Tests for the config map with the start date of legacy token tracking."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.controllers.legacy_token_tracking import LegacyTokenTracking
from nodeagent.base.identity import Identity
from nodeagent.testing import FakeClock
from tests.unit.apiserver_stub.controllers.harness import MeteredStore, running, store

__all__ = ["store"]

MAPS = "core/configmaps"
NAME = "kube-apiserver-legacy-service-account-token-tracking"
KEY = f"kube-system/{NAME}"


def config_map(data: Any) -> dict[str, Any]:
    return {"metadata": {"name": NAME, "namespace": "kube-system", "uid": "1"}, "data": data}


async def test_missing_config_map_is_created_with_the_date(store: MeteredStore, clock: FakeClock) -> None:
    async with running(store, LegacyTokenTracking(store, Identity(), clock).run()):
        await clock.advance(1)

    assert store.read(MAPS, KEY)["data"] == {"since": "2024-01-02"}


async def test_deleted_config_map_is_recreated_at_most_every_half_hour(store: MeteredStore, clock: FakeClock) -> None:
    async with running(store, LegacyTokenTracking(store, Identity(), clock).run()):
        await clock.advance(1)
        store.remove(MAPS, KEY)
        await clock.advance(1700)
        assert store.read(MAPS, KEY) is None
        await clock.advance(200)

    assert store.read(MAPS, KEY) is not None
    assert store.writes == 3


async def test_existing_config_map_is_recreated_immediately(store: MeteredStore, clock: FakeClock) -> None:
    store.put(MAPS, config_map({"since": "2020-05-06"}))
    async with running(store, LegacyTokenTracking(store, Identity(), clock).run()):
        await clock.advance(1)
        store.remove(MAPS, KEY)
        await clock.advance(1)
    assert store.read(MAPS, KEY)["data"] == {"since": "2024-01-02"}


@pytest.mark.parametrize("data", [{"since": "2020-05-06"}, {"since": "2020-05-06", "other": "kept"}])
async def test_valid_date_is_kept(store: MeteredStore, clock: FakeClock, data: dict[str, str]) -> None:
    store.put(MAPS, config_map(data))
    async with running(store, LegacyTokenTracking(store, Identity(), clock).run()):
        await clock.advance(1)

    assert store.read(MAPS, KEY)["data"] == data
    assert store.writes == 1


@pytest.mark.parametrize("text", ["", "yesterday", "2020-13-01", "20200501", "2020-5-1"])
async def test_invalid_date_is_replaced(store: MeteredStore, clock: FakeClock, text: str) -> None:
    store.put(MAPS, config_map({"since": text, "other": "kept"}))
    async with running(store, LegacyTokenTracking(store, Identity(), clock).run()):
        await clock.advance(1)

    assert store.read(MAPS, KEY)["data"] == {"since": "2024-01-02", "other": "kept"}
