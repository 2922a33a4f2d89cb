"""Lists and watches: a plugin follows one selection of objects."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from nodeagent.base.aio import Backoff, Clock
from nodeagent.contracts.api import Api, Resource, WatchEvent, WatchType
from nodeagent.errors import ApiError, ApiGone

_log = logging.getLogger(__name__)

PlainObject = dict[str, Any]
_FIRST_PAUSE, _LONGEST_PAUSE = 0.8, 30.0
_QUICK_SECONDS = 1.0
"""A watch that ends sooner is followed by a delay."""


async def follow(
    api: Api,
    resource: Resource,
    namespace: str,
    *,
    clock: Clock,
    field_selector: str = "",
    listed: Callable[[list[PlainObject]], None],
    changed: Callable[[WatchEvent[PlainObject]], None],
    failed: Callable[[ApiError], None] = lambda _error: None,
    watch_patience_seconds: float = 0.0,
) -> None:
    """Report the selection once, then every change; after a gap report the complete selection again.

    Runs until it is cancelled. Only the first of consecutive errors is logged, none is raised; retries have increasing
    delays.

    :param api: the client.
    :param resource: the REST resource.
    :param namespace: restricts the selection to one namespace; empty for all.
    :param clock: the clock of the delays.
    :param field_selector: selector such as ``metadata.name=web``; empty selects all objects.
    :param listed: called with the complete selection.
    :param changed: called with each change.
    :param failed: called with each error of a list, which is repeated.
    :param watch_patience_seconds: time for which the rate limit prefers other requests to the watch.
    """
    pauses = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE)
    version, expired, failing = "", False, False
    fields = {"kind": resource.kind, "namespace": namespace, "selector": field_selector}
    while True:
        started = clock.now()
        try:
            if not version:
                # After "too old" the server's cache could be outdated as well.
                listing = await api.list(
                    resource, namespace, into=dict, field_selector=field_selector, cached=not expired
                )
                version, expired = listing.resource_version, False
                listed(listing.items)
            watch = api.watch(
                resource,
                namespace,
                into=dict,
                resource_version=version,
                field_selector=field_selector,
                patience_seconds=watch_patience_seconds,
            )
            async for event in watch:
                version = event.resource_version or version
                if event.type is not WatchType.BOOKMARK:
                    changed(event)
            if failing:
                failing = False
                _log.info("Resumed watch", extra=fields)
        except ApiGone:
            version, expired = "", True
        except ApiError as error:
            if not version:
                failed(error)
            if not failing:
                failing = True
                _log.warning("Failed to watch", extra={**fields, "err": str(error)})
            if not error.transient:
                version = ""
        if clock.now() - started > _QUICK_SECONDS:
            pauses.reset()
        else:
            await clock.sleep(pauses.next())
