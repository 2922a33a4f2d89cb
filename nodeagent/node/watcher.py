"""Watch of the node object, for its labels, taints and addresses."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from nodeagent.base.aio import Backoff, Clock
from nodeagent.base.aio.waker import wait_for
from nodeagent.contracts.api import NODES, Api, WatchType
from nodeagent.errors import ApiError, ApiGone

_RETRY_SECONDS = (0.8, 30.0)

_log = logging.getLogger(__name__)


class NodeWatcher:
    """Watches one node."""

    def __init__(self, api: Api, node_name: str, clock: Clock) -> None:
        self._api, self._name, self._clock = api, node_name, clock
        self._selector = f"metadata.name={node_name}"
        self._version = ""
        self._failing = False
        self._synced = asyncio.Event()
        self._node: dict[str, Any] | None = None
        self.listeners: list[Callable[[], None]] = []
        """Called after each change of the node."""

    @property
    def node(self) -> dict[str, Any] | None:
        """The node, or ``None`` if unknown. After an update, callers may set the returned object."""
        return self._node

    @node.setter
    def node(self, node: dict[str, Any] | None) -> None:
        self._node = node
        for listener in self.listeners:
            listener()

    async def synced(self, seconds: float | None = None) -> None:
        """Wait until the node has been listed once, optionally for at most *seconds*."""
        if seconds is None:
            await self._synced.wait()
        else:
            await wait_for(self._synced, self._clock, seconds)

    async def run(self) -> None:
        """Watch until cancelled."""
        backoff = Backoff(*_RETRY_SECONDS, jitter=1.0)
        while True:
            started = self._clock.now()
            try:
                if not self._version:
                    listing = await self._api.list(NODES, into=dict, field_selector=self._selector, cached=True)
                    self._version = listing.resource_version
                    self.node = listing.items[0] if listing.items else None
                    self._synced.set()
                    self._log_result(None)
                await self._watch()
            except ApiGone:
                self._version = ""
            except ApiError as error:
                self._log_result(error)
            if self._clock.now() - started > _RETRY_SECONDS[1]:
                backoff.reset()
            await self._clock.sleep(backoff.next())

    async def _watch(self) -> None:
        events = self._api.watch(NODES, into=dict, resource_version=self._version, field_selector=self._selector)
        async for event in events:
            self._log_result(None)
            self._version = event.resource_version or self._version
            if event.type is WatchType.DELETED:
                _log.warning("Node object was deleted, restart to register it", extra={"node": self._name})
                self.node = None
            elif event.type is not WatchType.BOOKMARK:
                self.node = event.object

    def _log_result(self, error: ApiError | None) -> None:
        """Log the first of consecutive failures, and the recovery."""
        if error is not None and not self._failing:
            _log.warning("Failed to watch node", extra={"node": self._name, "err": str(error)})
        elif error is None and self._failing:
            _log.info("Node watch recovered", extra={"node": self._name})
        self._failing = error is not None
