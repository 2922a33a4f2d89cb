"""Removal of the resource slices of missing drivers, so that their devices are not allocated any more."""

from __future__ import annotations

import logging

from nodeagent.base.aio import Backoff, Clock
from nodeagent.base.aio.waker import Waker
from nodeagent.errors import ApiError
from nodeagent_plugins.claims.allocated_claims import ResourceApi
from nodeagent_plugins.claims.drivers import Drivers

_RETRY_SECONDS = (1.0, 60.0)
_IDLE_SECONDS = 3600.0
_log = logging.getLogger(__name__)


class SliceCleaner:
    """Loop that deletes the slices of this node whose driver is not connected.

    After a start of the agent, drivers have the same grace period to register.

    :param grace_seconds: time without a connected driver after which its slices are deleted.
    """

    name = "resource slices"

    def __init__(self, api: ResourceApi, drivers: Drivers, node: str, clock: Clock, grace_seconds: float) -> None:
        self._api, self._drivers, self._node, self._clock = api, drivers, node, clock
        self._grace = grace_seconds
        self._due: dict[str, float] = {}
        """Times at which slices are deleted, by driver."""
        self._waker = Waker(clock)
        drivers.on_change(self._changed)

    async def run(self) -> None:
        """Delete slices until cancelled."""
        backoff, listed = Backoff(*_RETRY_SECONDS, jitter=0.2), False
        while True:
            try:
                if not listed:
                    for driver in await self._api.drivers_with_slices(self._node):
                        self._changed(driver)
                    listed = True
                await self._delete_due()
                backoff.reset()
            except ApiError as error:
                _log.warning("Failed to delete ResourceSlices, will retry", extra={"err": str(error)})
                await self._clock.sleep(backoff.next())
                continue
            due = min(self._due.values(), default=self._clock.now() + _IDLE_SECONDS)
            await self._waker.wait(max(0.0, due - self._clock.now()))

    def _changed(self, driver: str) -> None:
        if self._drivers.is_connected(driver):
            self._due.pop(driver, None)
        else:
            self._due.setdefault(driver, self._clock.now() + self._grace)
        self._waker.wake()

    async def _delete_due(self) -> None:
        now = self._clock.now()
        for driver in [driver for driver, at in self._due.items() if at <= now]:
            await self._api.delete_slices(self._node, driver)
            if self._due.pop(driver, None) is not None:
                _log.info("Deleted ResourceSlices of DRA driver", extra={"driver": driver})
