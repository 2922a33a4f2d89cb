"""Writes of kinds whose objects have what only one may have: it is taken before the write and given back after it.

Better taken by nobody than by two: when it cannot be known whether the write was made, nothing is given back, and what
nobody has then is found by those who repair.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.storage import Store, StoreRefused
from apiserver_stub.verbs.responses import Reply

if TYPE_CHECKING:
    from apiserver_stub.apimachinery.request import Request
    from apiserver_stub.kinds.registry import Resource
    from apiserver_stub.verbs.context import VerbContext

NOT_MADE = (ApiError, StoreRefused)
"""Errors after which a write was surely not made."""


async def reserving(
    verb: Callable[[VerbContext, Request, Resource], Awaitable[Reply]],
    context: VerbContext,
    request: Request,
    resource: Resource,
) -> Reply:
    """Return what *verb* answers, and give back what is no longer had after it."""
    try:
        reply = await verb(context, request, resource)
    except NOT_MADE:
        await _release(request)
        raise
    if request.reservation is not None:
        await request.reservation.keep()
    return reply


async def reserve(
    context: VerbContext, request: Request, resource: Resource, new: Object | None, old: Object | None
) -> None:
    """Take what *new* is to have and complete it; what was taken for an earlier plan of the same write is given back.

    :raises ApiError: it is not to be had.
    """
    await _release(request)
    request.reservation = await resource.strategy.reserve(context.store, new, old, dry_run=request.dry_run)


async def give_back(store: Store, resource: Resource, obj: Object) -> None:
    """Give back all that *obj*, which is gone, had."""
    reservation = await resource.strategy.reserve(store, None, obj)
    await reservation.keep()


async def _release(request: Request) -> None:
    reservation, request.reservation = request.reservation, None
    if reservation is not None:
        await reservation.release()
