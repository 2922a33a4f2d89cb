"""Notifications of changed containers, which let the generic PLEG relist less often while nothing changes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable

from nodeagent.base.aio import Backoff, Clock
from nodeagent.base.logging import v_level
from nodeagent.contracts.runtime import ContainerRuntime, NotifyingRuntime
from nodeagent.errors import RuntimeFailure
from nodeagent.pleg.generic import GenericPleg

_log = logging.getLogger(__name__)

CONFIRMED_SECONDS = 1.0
"""Time after which a subscription counts as accepted: it is not confirmed, but an unsupported one fails immediately."""


class ChangeNotifications:
    """Relists when the runtime notifies of changes; every second without notifications."""

    def __init__(self, runtime: Callable[[], ContainerRuntime], generic: GenericPleg, clock: Clock) -> None:
        self._runtime, self._generic, self._clock = runtime, generic, clock

    async def run(self) -> None:
        """Receive notifications until cancelled, or until the runtime is known to have none."""
        backoff = Backoff(1.0, 30.0)
        while isinstance(runtime := self._runtime(), NotifyingRuntime):
            try:
                await self._receive(runtime, backoff)
            except NotImplementedError:
                _log.log(v_level(2), "Relisting every second, container runtime without notifications of changes")
                return
            except RuntimeFailure as error:
                _log.log(v_level(4), "Failed to receive notifications of changes", extra={"err": str(error)})
            await self._clock.sleep(backoff.next())

    async def _receive(self, runtime: NotifyingRuntime, backoff: Backoff) -> None:
        confirmation = asyncio.create_task(self._confirm(backoff), name="pleg/notifications")
        try:
            async for _ in runtime.changes():
                self._generic.notified()
        finally:
            confirmation.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await confirmation
            self._generic.rely_on_notifications(rely=False)

    async def _confirm(self, backoff: Backoff) -> None:
        await self._clock.sleep(CONFIRMED_SECONDS)
        backoff.reset()
        self._generic.rely_on_notifications(rely=True)
