"""Connections to the registered drivers, and the streams of their devices' health."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any

from nodeagent.base.aio import Backoff, Clock
from nodeagent.base.aio.waker import Waker
from nodeagent.base.plugin_rpc import RpcError, connect, methods_of
from nodeagent.base.pluginproto import dra_health_pb2
from nodeagent.contracts.claims import PublishHealth, ReportedHealth
from nodeagent.errors import ClaimError
from nodeagent_plugins.claims.device_health import HealthCache
from nodeagent_plugins.claims.drivers import Drivers, RegisteredDriver
from nodeagent_plugins.claims.grpc_driver import GrpcDriver

HEALTH_RETRY_SECONDS = 5.0
_CONNECT_SECONDS = 10.0
_RETRY_SECONDS = (1.0, 30.0)
_IDLE_SECONDS = 3600.0
_DEFAULT_TIMEOUT_SECONDS = 30.0
_MAX_DEVICES = 65536
_HEALTH = {0: "Unknown", 1: "Healthy", 2: "Unhealthy"}
_METHODS = methods_of(dra_health_pb2.DESCRIPTOR.services_by_name["DRAResourceHealth"])
_log = logging.getLogger(__name__)


class DriverConnections:
    """Loop that keeps a connection to each driver, so that its absence is noticed, and reads its health stream.

    :param changed: called with the driver and the devices (pool and name) whose health has changed.
    :param has_health: health streams are read.
    """

    name = "DRA drivers"

    def __init__(
        self,
        drivers: Drivers,
        health: HealthCache,
        clock: Clock,
        changed: Callable[[str, set[tuple[str, str]]], None],
        *,
        has_health: bool = True,
    ) -> None:
        self._drivers, self._health, self._clock, self._changed = drivers, health, clock, changed
        self._has_health = has_health
        self._waker = Waker(clock)
        drivers.on_change(lambda _: self._waker.wake())

    async def run(self) -> None:
        """Watch the registered drivers until cancelled."""
        tasks: dict[RegisteredDriver, list[asyncio.Task[None]]] = {}
        try:
            while True:
                registered = set(self._drivers)
                for driver in tasks.keys() - registered:
                    await _stop(tasks.pop(driver))
                for driver in registered - tasks.keys():
                    tasks[driver] = [asyncio.create_task(each) for each in self._loops(driver)]
                await self._waker.wait(self._until_expiry())
                for name, devices in self._health.expired().items():
                    self._changed(name, devices)
        finally:
            await _stop([task for found in tasks.values() for task in found])

    def _loops(self, driver: RegisteredDriver) -> Iterator[Coroutine[Any, Any, None]]:
        if isinstance(driver.driver, GrpcDriver):
            yield self._watch_connection(driver, driver.driver.endpoint)
        if self._has_health and (driver.has_health or not isinstance(driver.driver, GrpcDriver)):
            yield self._watch_health(driver)

    def _until_expiry(self) -> float:
        expiry = self._health.next_expiry()
        return _IDLE_SECONDS if expiry is None else max(0.0, min(expiry - self._clock.now(), _IDLE_SECONDS))

    async def _watch_connection(self, driver: RegisteredDriver, endpoint: str) -> None:
        backoff = Backoff(*_RETRY_SECONDS, jitter=0.2)
        while True:
            try:
                async with connect(endpoint, _CONNECT_SECONDS) as connection:
                    await connection.wait_ready(_CONNECT_SECONDS)
                    backoff.reset()
                    self._drivers.set_connected(driver, connected=True)
                    await connection.wait_broken()
            except RpcError as error:
                if driver.connected:
                    fields = {"driver": driver.driver.name, "endpoint": endpoint, "err": str(error)}
                    _log.warning("DRA driver disconnected", extra=fields)
                self._drivers.set_connected(driver, connected=False)
                await self._clock.sleep(backoff.next())

    async def _watch_health(self, driver: RegisteredDriver) -> None:
        name, failing = driver.driver.name, False

        def publish(devices: Sequence[ReportedHealth]) -> None:
            if changed := self._health.update(name, devices):
                self._changed(name, changed)
            self._waker.wake()  # The next expiry has changed.

        try:
            while True:
                try:
                    if isinstance(driver.driver, GrpcDriver):
                        await _read_stream(driver.driver.endpoint, publish)
                    else:
                        await driver.driver.watch_health(publish)
                        return
                except (ClaimError, RpcError) as error:
                    if not failing:
                        _log.warning("Failed to watch health of DRA devices", extra={"driver": name, "err": str(error)})
                    failing = True
                self._forget(name)
                await self._clock.sleep(HEALTH_RETRY_SECONDS)
        finally:
            self._forget(name)

    def _forget(self, name: str) -> None:
        if devices := self._health.forget(name):
            self._changed(name, devices)


async def _read_stream(endpoint: str, publish: PublishHealth) -> None:
    """Publish the responses of a driver's health service until its stream ends.

    :raises RpcError: the stream broke.
    """
    async with connect(endpoint, _CONNECT_SECONDS) as connection:
        async for response in connection.stream(
            _METHODS["NodeWatchResources"], dra_health_pb2.NodeWatchResourcesRequest()
        ):
            publish(
                [
                    ReportedHealth(
                        each.device.pool_name,
                        each.device.device_name,
                        _HEALTH.get(each.health, "Unknown"),
                        each.message,
                        float(each.health_check_timeout_seconds)
                        if each.health_check_timeout_seconds > 0
                        else _DEFAULT_TIMEOUT_SECONDS,
                    )
                    for each in response.devices[:_MAX_DEVICES]
                ]
            )


async def _stop(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
