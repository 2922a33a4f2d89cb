"""Services that this server asks over HTTP: a connection file says where they are and who we are to them.

Redirects are not followed, answers are bounded, and every attempt has a deadline.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from nodeagent.base import kubeconfig
from nodeagent.base.aio import Backoff, Clock, SystemClock
from nodeagent.base.kubeconfig import Kubeconfig, KubeconfigError

_log = logging.getLogger(__name__)

ATTEMPTS = 5
ATTEMPT_SECONDS = 30.0
_FIRST_PAUSE_SECONDS, _FACTOR, _JITTER = 0.5, 1.5, 0.2
_LONGEST_PAUSE_SECONDS = 30.0
_MAX_ANSWER_BYTES = 3 << 20
_CONNECTIONS = 100
_HEADERS = {"Content-Type": "application/json", "Accept": "application/json, */*"}


class WebhookError(Exception):
    """The service did not answer usefully."""


class _Transient(WebhookError):
    def __init__(self, message: str, pause_seconds: float | None = None) -> None:
        super().__init__(message)
        self.pause_seconds = pause_seconds


class Webhook:
    """Posts JSON to the service of one connection file; use it as a context manager."""

    def __init__(
        self,
        path: Path,
        *,
        clock: Clock | None = None,
        attempts: int = ATTEMPTS,
        attempt_seconds: float = ATTEMPT_SECONDS,
        first_pause_seconds: float = _FIRST_PAUSE_SECONDS,
    ) -> None:
        """Read the file.

        :raises KubeconfigError: it cannot be used.
        """
        self._config: Kubeconfig = kubeconfig.load(path)
        self._context = self._config.ssl_context()
        self._clock, self._attempts, self._attempt_seconds = clock or SystemClock(), attempts, attempt_seconds
        self._first_pause_seconds = first_pause_seconds
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Webhook:
        connector = aiohttp.TCPConnector(limit=_CONNECTIONS, ssl=self._context if self._context is not None else False)
        self._session = aiohttp.ClientSession(
            connector=connector, timeout=aiohttp.ClientTimeout(total=self._attempt_seconds), trust_env=False
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def post(self, body: Any) -> Any:
        """Return the decoded answer to *body*; what may pass is tried again after growing pauses.

        :raises WebhookError: no attempt brought a usable answer.
        """
        data = msgspec.json.encode(body) + b"\n"
        pauses = Backoff(self._first_pause_seconds, _LONGEST_PAUSE_SECONDS, factor=_FACTOR, jitter=_JITTER)
        for attempt in range(1, self._attempts + 1):
            try:
                return await self._post_once(data)
            except _Transient as error:
                _log.info("Webhook did not answer", extra={"server": self._config.server, "err": error})
                if attempt == self._attempts:
                    raise
                pause = pauses.next()
                await self._clock.sleep(pause if error.pause_seconds is None else error.pause_seconds)
        raise AssertionError("unreachable")

    async def _post_once(self, data: bytes) -> Any:
        if self._session is None:
            raise WebhookError("not connected")
        try:
            headers = dict(_HEADERS)
            if authorization := await asyncio.to_thread(self._config.authorization):
                headers["Authorization"] = authorization
            async with self._session.post(
                self._config.server,
                params={"timeout": f"{self._attempt_seconds:g}s"},
                data=data,
                headers=headers,
                allow_redirects=False,
                server_hostname=self._config.tls_server_name or None,
            ) as response:
                answer = await _read(response)
                status, retry_after = response.status, response.headers.get("Retry-After", "")
        except aiohttp.ClientSSLError as error:  # the same certificate would come again
            raise WebhookError(f"{type(error).__name__}: {error}") from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _Transient(f"{type(error).__name__}: {error}") from error
        except KubeconfigError as error:
            raise WebhookError(str(error)) from error
        if status >= 500 or status == 429 or retry_after:
            pause = min(float(retry_after), _LONGEST_PAUSE_SECONDS) if retry_after.isdecimal() else None
            raise _Transient(f"answered {status}", pause)
        if not 200 <= status < 300:
            raise WebhookError(f"answered {status}")
        try:
            return msgspec.json.decode(answer)
        except (ValueError, RecursionError) as error:
            raise WebhookError(f"answered no JSON: {error}") from error


async def _read(response: aiohttp.ClientResponse) -> bytes:
    pieces, size = [], 0
    async for piece in response.content.iter_any():
        size += len(piece)
        if size > _MAX_ANSWER_BYTES:
            raise WebhookError(f"answered more than {_MAX_ANSWER_BYTES} bytes")
        pieces.append(piece)
    return b"".join(pieces)
