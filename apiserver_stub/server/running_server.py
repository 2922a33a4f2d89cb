"""Running server: its endpoints, credentials and graceful shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from contextlib import AsyncExitStack
from pathlib import Path

from apiserver_stub.audit.context import Audit
from apiserver_stub.controllers.kubernetes_service import KubernetesService
from apiserver_stub.lifecycle import Lifecycle
from apiserver_stub.options import Options
from apiserver_stub.pipeline.limits import Limits
from apiserver_stub.pipeline.request_metrics import RequestMetrics
from apiserver_stub.storage import Store
from apiserver_stub.transport.listener import Listener
from nodeagent.base.logging import v_level
from nodeagent.base.structs import Struct

_log = logging.getLogger(__name__)

_POLL_SECONDS = 0.02


class RunningServer(Struct, frozen=True):
    """A running server and its graceful shutdown."""

    options: Options
    url: str
    ca_file: Path
    token: str
    kubeconfig: Path
    node_kubeconfig: Path
    client_ca_file: Path | None
    """CA certificate by which node agents verify the client certificate of this server, if it was generated."""
    lifecycle: Lifecycle
    store: Store
    metrics: RequestMetrics
    limits: Limits
    audit: Audit | None
    listener: Listener
    kubernetes_service: KubernetesService
    resources: AsyncExitStack

    async def stop(self) -> None:
        """Fail ``/readyz`` for the shutdown delay, finish requests in flight, terminate watches and close the store."""
        lifecycle, options = self.lifecycle, self.options
        if not lifecycle.terminating:
            lifecycle.terminating = True
            _log_shutdown("ShutdownInitiated")
            await self.kubernetes_service.withdraw()
            await asyncio.sleep(options.shutdown_delay_seconds)
            _log_shutdown("AfterShutdownDelayDuration")
            if not options.shutdown_send_retry_after:
                await self.listener.stop()
            lifecycle.draining = True
            _log_shutdown("NotAcceptingNewRequest")
            await self.limits.drained()
            _log_shutdown("InFlightRequestsDrained")
            lifecycle.stopping.set()
            await self._wait_for_watches()
        await self.resources.aclose()
        _log_shutdown("HTTPServerStoppedListening")

    async def _wait_for_watches(self) -> None:
        """Wait until all watches have terminated, at most for their grace period."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.options.shutdown_watch_grace_seconds):
                while self.metrics.watches:  # noqa: ASYNC110 - the count changes often and is awaited only once
                    await asyncio.sleep(_POLL_SECONDS)


def _log_shutdown(event: str) -> None:
    _log.log(v_level(1), "[graceful-termination] shutdown event", extra={"event": event})
