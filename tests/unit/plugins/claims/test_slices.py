"""Tests for the removal of resource slices whose driver is missing."""

from __future__ import annotations

import asyncio

import pytest

from nodeagent.contracts.api import Resource
from nodeagent.testing import eventually
from nodeagent.testing.contracts import BackgroundLoopContract
from nodeagent_plugins.claims.allocated_claims import ResourceApi
from nodeagent_plugins.claims.drivers import RegisteredDriver
from nodeagent_plugins.claims.slices import SliceCleaner
from tests.unit.plugins.claims.conftest import GPU

SLICES = Resource("resource", "v1", "resourceslices", "ResourceSlice", namespaced=False)
GRACE = 30


@pytest.fixture
def cleaner(api, drivers, clock):
    return SliceCleaner(ResourceApi(api), drivers, "node-1", clock, GRACE)


class TestContract(BackgroundLoopContract):
    @pytest.fixture
    def loop(self, cleaner):
        return cleaner


def put(api, name, driver=GPU, node="node-1"):
    api.put(SLICES, {"metadata": {"name": name}, "spec": {"driver": driver, "nodeName": node}})


def names(api):
    return sorted(item["metadata"]["name"] for item in api.all(SLICES))


@pytest.fixture
async def start(cleaner, api):
    tasks = []

    async def run():
        tasks.append(asyncio.create_task(cleaner.run()))
        await eventually(lambda: api.made("list"))

    yield run
    for task in tasks:
        task.cancel()


async def test_slices_of_a_driver_that_does_not_register_are_deleted(api, clock, start, caplog):
    caplog.set_level("INFO")
    put(api, "old", "old.example.com")
    put(api, "registered")
    put(api, "other-node", "old.example.com", "node-2")
    await start()
    await clock.advance(GRACE - 1)
    assert names(api) == ["old", "other-node", "registered"]

    await clock.advance(1)
    await eventually(lambda: names(api) == ["other-node", "registered"])
    assert [vars(record)["driver"] for record in caplog.records if "Deleted" in record.message] == ["old.example.com"]


async def test_invalid_driver_names_are_ignored(api, clock, start):
    for number, driver in enumerate((None, "", 1)):
        put(api, f"slice-{number}", driver)
    await start()
    await clock.advance(GRACE * 2)

    assert not api.made("deletecollection")


async def test_driver_that_returns_in_time_keeps_its_slices(api, clock, drivers, driver, start):
    put(api, "one")
    await start()
    drivers.set_connected(drivers.find(GPU, driver.endpoint), connected=False)
    await clock.advance(GRACE - 1)
    drivers.remove(GPU, driver.endpoint)
    drivers.add(RegisteredDriver(driver))
    await clock.advance(GRACE * 2)
    assert names(api) == ["one"]

    drivers.remove(GPU, driver.endpoint)
    await clock.advance(GRACE)
    await eventually(lambda: names(api) == [])
