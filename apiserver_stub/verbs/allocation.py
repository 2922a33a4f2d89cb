"""Allocations of writes, such as cluster IPs and node ports: allocated before a write, released if it fails.

If it is uncertain whether the write was made, nothing is released: a leak, which the repair loop detects, is better
than a second allocation of the same value.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.storage import Store, StoreRejected
from apiserver_stub.verbs.responses import Reply

if TYPE_CHECKING:
    from apiserver_stub.apimachinery.request import Request
    from apiserver_stub.kinds.registry import Resource
    from apiserver_stub.verbs.context import VerbContext

NOT_MADE = (ApiError, StoreRejected)
"""Errors after which a write was certainly not made."""


async def with_allocations(
    verb: Callable[[VerbContext, Request, Resource], Awaitable[Reply]],
    context: VerbContext,
    request: Request,
    resource: Resource,
) -> Reply:
    """Run *verb*; keep its allocations if it succeeds, release them if it certainly failed."""
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
    """Allocate the values that *new* requires and set them in it; release those of an earlier plan of the same write.

    :raises ApiError: a value is not available.
    """
    await _release(request)
    request.reservation = await resource.strategy.reserve(context.store, new, old, dry_run=request.dry_run)


async def release(store: Store, resource: Resource, obj: Object) -> None:
    """Release all allocations of the deleted *obj*."""
    reservation = await resource.strategy.reserve(store, None, obj)
    await reservation.keep()


async def _release(request: Request) -> None:
    reservation, request.reservation = request.reservation, None
    if reservation is not None:
        await reservation.release()
