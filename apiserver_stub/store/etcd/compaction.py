"""Compaction, agreed upon by all servers of a store: one of them wins each round and has it done."""

from __future__ import annotations

import logging
from collections.abc import Callable

from apiserver_stub.store.base import StoreRefused, StoreUnavailable
from apiserver_stub.store.etcd.client import EtcdClient
from nodeagent.base.aio import Clock

_log = logging.getLogger(__name__)

KEY = b"compact_rev_key"
"""Has no prefix: a store is compacted as a whole. Its version counts the rounds."""


class Compaction:
    """Every *seconds* the store forgets what was before the previous round (spec: opt.store-compaction-interval).

    :param forget: is told the revision before which the store has forgotten everything.
    """

    def __init__(self, client: EtcdClient, forget: Callable[[int], None], seconds: float, clock: Clock) -> None:
        self._client, self._forget, self.seconds, self._clock = client, forget, seconds, clock
        self._round, self._revision = 0, 0

    async def run(self) -> None:
        while True:
            await self._clock.sleep(self.seconds)
            try:
                await self.once()
            except (StoreUnavailable, StoreRefused) as error:
                _log.warning("Compaction failed", extra={"err": error})

    async def once(self) -> None:
        """Take part in one round.

        :raises StoreUnavailable: the store does not answer.
        """
        before = self._revision
        won, answer = await self._client.bump(KEY, str(before).encode(), version=self._round)
        self._revision = answer.header.revision
        if won:
            self._round += 1
            if before:
                await self._client.compact(before)
                self._forget(before)
            return
        found = answer.responses[0].response_range.kvs
        if found:
            self._round = found[0].version
            if found[0].value.isdigit():
                self._forget(min(int(found[0].value), self._revision))
