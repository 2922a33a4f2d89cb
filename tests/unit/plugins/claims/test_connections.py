"""Tests for the health streams of Python drivers: publication, expiry, failure and removal."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from nodeagent.base.pluginproto import dra_health_pb2
from nodeagent.contracts.claims import ReportedHealth
from nodeagent.errors import ClaimError
from nodeagent.testing import FakeClaimDriver
from nodeagent_plugins.claims import connections
from nodeagent_plugins.claims.connections import HEALTH_RETRY_SECONDS, DriverConnections
from nodeagent_plugins.claims.device_health import HealthCache
from nodeagent_plugins.claims.drivers import Drivers, RegisteredDriver
from nodeagent_plugins.claims.grpc_driver import V1, GrpcDriver
from tests.unit.plugins.claims.conftest import GPU

DEVICE = ("node-1", "gpu-0")


class Driver(FakeClaimDriver):
    """Driver whose health a test publishes, or whose stream it ends with an error."""

    def __init__(self) -> None:
        super().__init__()
        self.streams: list[asyncio.Future[None]] = []

    async def watch_health(self, publish):
        self.publish = publish
        self.streams.append(asyncio.get_running_loop().create_future())
        await self.streams[-1]


@pytest.fixture
def driver():
    return Driver()


@pytest.fixture
async def changes(drivers, clock):
    """Changes that the running loop reports."""
    found = []
    loop = DriverConnections(drivers, HealthCache(clock), clock, lambda *change: found.append(change))
    task = asyncio.create_task(loop.run())
    await clock.advance(0)
    yield found
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def test_health_is_unknown_after_its_expiry(driver, changes, clock):
    driver.publish([ReportedHealth(*DEVICE, "Healthy", timeout_seconds=10)])
    await clock.advance(9)
    assert changes == [(GPU, {DEVICE})]

    await clock.advance(1)
    assert changes == [(GPU, {DEVICE})] * 2


async def test_failed_stream_is_opened_again(driver, changes, clock, caplog):
    driver.publish([ReportedHealth(*DEVICE, "Healthy")])
    for number in (1, 2):
        driver.streams[-1].set_exception(ClaimError("no sensor"))
        await clock.advance(0)
        assert changes == [(GPU, {DEVICE})] * 2
        assert len(driver.streams) == number
        assert caplog.text.count("Failed to watch health") == 1
        await clock.advance(HEALTH_RETRY_SECONDS)

    assert len(driver.streams) == 3


async def test_driver_without_health_is_not_called_again(driver, changes, clock):
    driver.streams[0].set_result(None)
    await clock.advance(10 * HEALTH_RETRY_SECONDS)

    assert (len(driver.streams), changes) == (1, [])


async def test_health_is_not_watched_without_the_feature_gate(driver, drivers, clock):
    loop = DriverConnections(drivers, HealthCache(clock), clock, lambda *_: None, has_health=False)
    task = asyncio.create_task(loop.run())
    await clock.advance(HEALTH_RETRY_SECONDS)

    assert driver.streams == []
    task.cancel()
    await asyncio.wait([task])


async def test_health_of_a_removed_driver_is_dropped(driver, drivers, changes, clock):
    driver.publish([ReportedHealth(*DEVICE, "Healthy")])
    drivers.remove(GPU, driver.endpoint)
    await clock.advance(0)

    assert driver.streams[0].cancelled()
    assert changes == [(GPU, {DEVICE})] * 2


class Connection:
    """Connection to a driver that reports one device, whose health times out after *seconds*."""

    def __init__(self, seconds):
        device = dra_health_pb2.DeviceIdentifier(pool_name=DEVICE[0], device_name=DEVICE[1])
        health = dra_health_pb2.DeviceHealth(
            device=device, health=dra_health_pb2.HEALTHY, health_check_timeout_seconds=seconds
        )
        self._response = dra_health_pb2.NodeWatchResourcesResponse(devices=[health])

    @contextlib.asynccontextmanager
    async def connect(self, endpoint, seconds):
        yield self

    async def wait_ready(self, seconds):
        pass

    async def wait_broken(self):
        await asyncio.Event().wait()

    async def stream(self, method, request):
        yield self._response
        await asyncio.Event().wait()


@pytest.mark.parametrize(("seconds", "expected"), [(10, 10), (0, 30), (-1, 30)])
async def test_health_of_a_registered_driver_expires_after_its_timeout(clock, monkeypatch, seconds, expected):
    monkeypatch.setattr(connections, "connect", Connection(seconds).connect)
    drivers, health = Drivers(), HealthCache(clock)
    drivers.add(RegisteredDriver(GrpcDriver(GPU, "/run/dra.sock", V1), has_health=True))
    task = asyncio.create_task(DriverConnections(drivers, health, clock, lambda *_: None).run())
    await clock.advance(0)

    assert health.next_expiry() == clock.now() + expected
    task.cancel()
    await asyncio.wait([task])
