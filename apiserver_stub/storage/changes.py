"""Waiting for changes of several collections."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from apiserver_stub.storage.base import Store


def log_ends(store: Store, *collections: str) -> dict[str, int]:
    """Return the ends of the change logs of *collections*, for :func:`changed_since`."""
    return {name: store.collection(name).end for name in collections}


async def changed_since(store: Store, ends: Mapping[str, int], *, timeout_seconds: float | None = None) -> None:
    """Return when the change log of one of the collections has passed its end in *ends*, or after *timeout_seconds*."""
    waits = [asyncio.ensure_future(store.collection(name).wait(end)) for name, end in ends.items()]
    try:
        await asyncio.wait(waits, timeout=timeout_seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
