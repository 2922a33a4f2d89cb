"""Keeps the status of quotas: what is used changes when objects go, end or change, without any request about them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

from apiserver_stub.admission.quota.ledger import COLLECTION, Ledger
from apiserver_stub.store import StoreUnavailable

if TYPE_CHECKING:
    from apiserver_stub.app import ApiServer

_log = logging.getLogger(__name__)
_PAUSE_SECONDS = 0.2
_RETRY_SECONDS = 5.0


async def keep_quotas(server: ApiServer, ledger: Ledger) -> None:
    """Count anew after changes, all quotas at most a few times a second; runs until cancelled.

    Without any quota it waits for one and costs nothing.
    """
    while True:
        ledger.freed.clear()
        keys = [record.key for record in server.store.collection(COLLECTION).select()]
        positions = server.positions(COLLECTION, *(ledger.collections if keys else ()))
        late = None
        for key in keys:
            try:
                await ledger.recount(key)
            except StoreUnavailable as error:
                late = _RETRY_SECONDS
                _log.warning("Quota was not counted", extra={"quota": key, "err": error})
        own = server.positions(COLLECTION)
        if keys:
            positions |= own  # what was just written here is no news
        await _news(server, ledger, positions, late)
        await asyncio.sleep(_PAUSE_SECONDS)


async def _news(server: ApiServer, ledger: Ledger, positions: dict[str, int], late: float | None) -> None:
    changed = asyncio.ensure_future(server.changed_since(positions, timeout_seconds=late))
    freed = asyncio.ensure_future(ledger.freed.wait())
    try:
        await asyncio.wait((changed, freed), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (changed, freed):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
