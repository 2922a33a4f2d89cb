"""The webhook backend: lists of events posted to the server that a kubeconfig file names."""

from __future__ import annotations

import random
import ssl
from collections.abc import Sequence
from pathlib import Path

import aiohttp

from apiserver_stub.audit import event as events
from apiserver_stub.audit.event import KIND_HEAD, Event
from apiserver_stub.audit.policy import API_VERSION, AuditError
from nodeagent.base import kubeconfig
from nodeagent.base.aio import Clock
from nodeagent.base.kubeconfig import Kubeconfig, KubeconfigError

ATTEMPTS = 5
_FACTOR, _JITTER = 1.5, 0.2
_POST_SECONDS = 30
_HEAD = f'{{"kind":"EventList","apiVersion":"{API_VERSION}","metadata":{{}},"items":['.encode()


class Webhook:
    """Posts to the current context of a kubeconfig; whatever goes wrong is tried again, five times in all.

    :raises AuditError: the file is no good.
    """

    plugin = "webhook"
    parallel = True

    def __init__(self, config_file: Path, initial_backoff_seconds: float, clock: Clock) -> None:
        self._initial, self._clock = initial_backoff_seconds, clock
        try:
            self._config: Kubeconfig = kubeconfig.load(config_file)
            self._tls: ssl.SSLContext | None = self._config.ssl_context()
        except KubeconfigError as error:
            raise AuditError(f"initializing audit webhook: {error}") from None
        self._session: aiohttp.ClientSession | None = None

    def encode(self, event: Event) -> bytes:
        return b"{" + events.encode(event)[len(KIND_HEAD) : -1]

    async def write(self, records: Sequence[bytes]) -> None:
        """Post *records*, with growing pauses between attempts.

        :raises AuditError: the last attempt failed as well.
        """
        body = _HEAD + b",".join(records) + b"]}\n"
        pause = self._initial
        for attempt in range(ATTEMPTS):
            if attempt:
                await self._clock.sleep(pause * (1 + _JITTER * random.random()))  # noqa: S311 - spread of load
                pause *= _FACTOR
            problem = await self._post(body)
            if not problem:
                return
        raise AuditError(problem)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def _post(self, body: bytes) -> str:
        """Return what went wrong, or nothing."""
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(_POST_SECONDS))
        headers = {"Content-Type": "application/json", "Accept": "application/json, */*"}
        try:
            if authorization := self._config.authorization():
                headers["Authorization"] = authorization
            async with self._session.post(
                self._config.server,
                params={"timeout": f"{_POST_SECONDS}s"},
                data=body,
                headers=headers,
                ssl=self._tls or True,
                server_hostname=self._config.tls_server_name or None,
            ) as response:
                return "" if response.status < 300 else f"webhook answered {response.status}"
        except (aiohttp.ClientError, TimeoutError, OSError, KubeconfigError) as error:
            return f"{type(error).__name__}: {error}"
