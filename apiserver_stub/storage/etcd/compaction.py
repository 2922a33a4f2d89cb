"""Compaction of etcd, coordinated between servers: one of them wins each interval and compacts."""

from __future__ import annotations

import logging
from collections.abc import Callable

from apiserver_stub.storage.base import StoreRejected, StoreUnavailable
from apiserver_stub.storage.etcd.client import EtcdClient
from nodeagent.base.aio import Clock

_log = logging.getLogger(__name__)

KEY = b"compact_rev_key"
"""Key without prefix, since the complete database is compacted; its version counts the intervals."""


class Compaction:
    """Compact the history before the previous interval every *seconds* (spec: opt.store-compaction-interval).

    :param drop_history: called with the compacted revision.
    :param wrote: called with the revision of a write to :data:`KEY`, which no watch delivers.
    """

    def __init__(
        self,
        client: EtcdClient,
        drop_history: Callable[[int], None],
        wrote: Callable[[int], None],
        seconds: float,
        clock: Clock,
    ) -> None:
        self._client, self._drop_history, self._wrote = client, drop_history, wrote
        self.seconds, self._clock = seconds, clock
        self._interval, self._revision = 0, 0

    async def run(self) -> None:
        """Compact periodically until cancelled."""
        while True:
            await self._clock.sleep(self.seconds)
            try:
                await self.once()
            except (StoreUnavailable, StoreRejected) as error:
                _log.warning("etcd: endpoint compact failed", extra={"endpoints": self._client.urls, "err": error})

    async def once(self) -> None:
        """Run one interval.

        :raises StoreUnavailable: the cluster does not respond.
        """
        before = self._revision
        won, response = await self._client.bump(KEY, str(before).encode(), version=self._interval)
        self._revision = response.header.revision
        if won:
            self._wrote(self._revision)
            self._interval += 1
            if before:
                await self._client.compact(before)
                self._drop_history(before)
            return
        found = response.responses[0].response_range.kvs
        if found:
            self._interval = found[0].version
            if found[0].value.isdigit():
                self._drop_history(min(int(found[0].value), self._revision))
