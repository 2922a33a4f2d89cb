"""Checks of the control plane components that ComponentStatuses report.

A component that this server replaces is healthy with the server. Others are requested at the ports at which they serve
by default on the same host.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from apiserver_stub.controllers.leases import CONTROLLER_MANAGER, SCHEDULER, is_held
from apiserver_stub.storage import Store, StoreRejected, StoreUnavailable
from apiserver_stub.subresources.component_statuses import Check, Finding

if TYPE_CHECKING:
    from apiserver_stub.options import Options
    from apiserver_stub.storage.monitor import Check as StorageCheck
    from nodeagent.base.aio import Clock

URLS = {CONTROLLER_MANAGER: "https://127.0.0.1:10257/healthz", SCHEDULER: "https://127.0.0.1:10259/healthz"}
_SECONDS = 20.0
_MAX_BODY_BYTES = 10 << 10
_OK = Finding(healthy=True, message="ok")


def component_checks(
    options: Options, store: Store, clock: Clock, storage_check: StorageCheck, urls: Mapping[str, str] = URLS
) -> Callable[[], Mapping[str, Check]]:
    """Return the function for the current checks by component, with the names that kube-apiserver uses.

    :param urls: health endpoints of external components, by name of their lease.
    """

    def check(lease: str, *, replaced: bool = True) -> Check:
        external = not replaced or is_held(store, lease, clock.wall(), options.identity)
        return partial(_request, urls[lease]) if external else _healthy

    def current() -> Mapping[str, Check]:
        checks: dict[str, Check] = {
            "controller-manager": check(CONTROLLER_MANAGER),
            "scheduler": check(SCHEDULER, replaced=options.bind_pods_to_single_node),
        }
        if not options.store_servers:
            checks["etcd-0"] = partial(_check_storage, storage_check)
        for number, server in enumerate(options.store_servers):
            checks[f"etcd-{number}"] = partial(_check_server, store, server)
        return checks

    return current


async def _healthy() -> Finding:
    return _OK


async def _check_storage(check: StorageCheck) -> Finding:
    problem = await check.problem()
    return Finding(healthy=False, error=problem) if problem else _OK


async def _check_server(store: Store, url: str) -> Finding:
    try:
        responding = await store.sizes()
    except (StoreUnavailable, StoreRejected) as error:
        return Finding(healthy=False, error=str(error))
    return _OK if url in responding else Finding(healthy=False, error="context deadline exceeded")


async def _request(url: str) -> Finding:
    """Request the health endpoint of a component, whose certificate is not verified: it is self-signed by default."""
    import aiohttp  # Deferred: many modules, for servers with external components.

    try:
        async with (
            asyncio.timeout(_SECONDS),
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as session,
            session.get(url, allow_redirects=False) as response,
        ):
            body = (await response.content.read(_MAX_BODY_BYTES)).decode(errors="replace")
    except TimeoutError:
        return Finding(healthy=False, message=_failure(url, "context deadline exceeded"))
    except (aiohttp.ClientError, OSError) as error:
        reason = "connect: connection refused" if _has_no_listener(error) else str(error)
        return Finding(healthy=False, message=_failure(url, reason))
    if 200 <= response.status < 400:
        return Finding(healthy=True, message=body)
    return Finding(healthy=False, message=f"HTTP probe failed with statuscode: {response.status}")


def _has_no_listener(error: Exception) -> bool:
    return isinstance(getattr(error, "os_error", error), ConnectionRefusedError)


def _failure(url: str, reason: str) -> str:
    address = url.removeprefix("https://").partition("/")[0]
    return f'Get "{url}": dial tcp {address}: {reason}'
