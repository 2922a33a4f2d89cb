"""Services that this server asks over HTTP: a connection file says where they are and who we are to them.

Redirects are not followed, answers are bounded, and every attempt has a deadline.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any, Protocol

import aiohttp
import msgspec

from nodeagent.base import kubeconfig
from nodeagent.base.aio import Backoff, Clock, SystemClock
from nodeagent.base.file_signature import file_signatures
from nodeagent.base.kubeconfig import Kubeconfig, KubeconfigError

_log = logging.getLogger(__name__)

ATTEMPTS = 5
ATTEMPT_SECONDS = 30.0
_FIRST_PAUSE_SECONDS, _FACTOR, _JITTER = 0.5, 1.5, 0.2
_LONGEST_WISH_SECONDS = 30.0
_MAX_ANSWER_BYTES = 3 << 20
_HEADERS = {"Content-Type": "application/json", "Accept": "application/json, */*"}


class WebhookError(Exception):
    """The service did not answer usefully."""


class _Transient(WebhookError):
    def __init__(self, message: str, pause_seconds: float | None = None) -> None:
        super().__init__(message)
        self.pause_seconds = pause_seconds


@dataclass(frozen=True, slots=True)
class WebhookResponse:
    """What a service sent back, whatever its code."""

    status: int
    data: bytes
    retry_after: str

    def document(self) -> Any:
        """Return the content.

        :raises WebhookError: it is no JSON.
        """
        try:
            return msgspec.json.decode(self.data)
        except (ValueError, RecursionError) as error:
            raise WebhookError(f"answered no JSON: {error}") from error


async def exchange(
    session: aiohttp.ClientSession,
    url: str,
    data: bytes,
    *,
    seconds: float,
    context: ssl.SSLContext | None = None,
    server_name: str | None = None,
    authorization: str = "",
    max_bytes: int = _MAX_ANSWER_BYTES,
) -> WebhookResponse:
    """Post JSON once, telling the service how long it has.

    :param context: whom to trust; ``None`` for plain HTTP.
    :param server_name: what the certificate must name when that is not the host of *url*.
    :raises WebhookError: the answer has more than *max_bytes*.
    :raises TimeoutError: it was not complete after *seconds*.
    :raises aiohttp.ClientError: the connection failed.
    """
    headers = _HEADERS | {"Authorization": authorization} if authorization else _HEADERS
    async with (
        asyncio.timeout(seconds),
        session.post(
            url,
            params={"timeout": f"{seconds:g}s"},
            data=data,
            headers=headers,
            allow_redirects=False,
            ssl=context or True,
            server_hostname=server_name or None,
        ) as response,
    ):
        pieces, size = [], 0
        async for piece in response.content.iter_any():
            size += len(piece)
            if size > max_bytes:
                raise WebhookError(f"answered more than {max_bytes} bytes")
            pieces.append(piece)
        return WebhookResponse(response.status, b"".join(pieces), response.headers.get("Retry-After", ""))


class Poster(Protocol):
    """Client of a webhook that posts reviews."""

    async def post(self, body: Any) -> Any:
        """Post *body* and return the decoded response.

        :raises WebhookError: the request failed.
        """
        ...


class Webhook:
    """Posts JSON to the service of one connection file; close it in the end, or use it as a context manager.

    Files of certificates and tokens are looked at before each attempt, so changed ones count from there on.

    :param retry_all: whether any failure is tried again, and not only what may pass.
    """

    def __init__(
        self,
        path: Path,
        *,
        clock: Clock | None = None,
        attempts: int = ATTEMPTS,
        attempt_seconds: float = ATTEMPT_SECONDS,
        first_pause_seconds: float = _FIRST_PAUSE_SECONDS,
        retry_all: bool = False,
    ) -> None:
        """Read the file.

        :raises KubeconfigError: it cannot be used.
        """
        self._config: Kubeconfig = kubeconfig.load(path)
        self._stamps = file_signatures(self._config.files())
        self._context = self._config.ssl_context()
        self._clock, self._attempts, self._attempt_seconds = clock or SystemClock(), attempts, attempt_seconds
        self._first_pause_seconds, self._retry_all = first_pause_seconds, retry_all
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Webhook:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def post(self, body: Any) -> Any:
        """Return the decoded answer to *body*.

        :raises WebhookError: no attempt brought a usable answer.
        """
        return (await self.send(msgspec.json.encode(body) + b"\n")).document()

    async def send(self, data: bytes) -> WebhookResponse:
        """Return the answer to *data*, which is JSON; what may pass is tried again after growing pauses.

        :raises WebhookError: no attempt succeeded.
        """
        pauses = Backoff(self._first_pause_seconds, inf, factor=_FACTOR, jitter=_JITTER)
        for attempt in range(1, self._attempts + 1):
            try:
                return await self._send_once(data)
            except WebhookError as error:
                if not isinstance(error, _Transient) and not self._retry_all:
                    raise
                _log.info("Webhook did not answer", extra={"server": self._config.server, "err": error})
                if attempt == self._attempts:
                    raise
                pause, wish = pauses.next(), error.pause_seconds if isinstance(error, _Transient) else None
                await self._clock.sleep(pause if wish is None else wish)
        raise AssertionError("unreachable")

    def _credentials(self) -> str:
        """Take up changed certificate files and return the ``Authorization``; reads the disk.

        :raises KubeconfigError: the token file cannot be used. Certificate files that cannot leave all as it was.
        """
        found = file_signatures(self._config.files())
        if found != self._stamps:
            self._stamps = found
            try:
                self._context = self._config.ssl_context()
            except KubeconfigError as error:
                _log.error("Changed certificate files are not taken up", extra={"err": error})
        return self._config.authorization()

    async def _send_once(self, data: bytes) -> WebhookResponse:
        try:
            authorization = await asyncio.to_thread(self._credentials)
            if self._session is None:
                self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(), trust_env=False)
            answer = await exchange(
                self._session,
                self._config.server,
                data,
                seconds=self._attempt_seconds,
                context=self._context,
                server_name=self._config.tls_server_name,
                authorization=authorization,
            )
        except aiohttp.ClientSSLError as error:  # the same certificate would come again
            raise WebhookError(f"{type(error).__name__}: {error}") from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _Transient(f"{type(error).__name__}: {error}") from error
        except KubeconfigError as error:
            raise WebhookError(str(error)) from error
        if 200 <= answer.status < 300:
            return answer
        if answer.status >= 500 or answer.status == 429 or answer.retry_after:
            wish = answer.retry_after
            raise _Transient(
                f"answered {answer.status}", min(float(wish), _LONGEST_WISH_SECONDS) if wish.isdecimal() else None
            )
        raise WebhookError(f"answered {answer.status}")
