"""HTTP client of webhooks, configured by a kubeconfig with the URL and the client credentials.

Redirects are not followed, the size of responses is limited, and every attempt has a timeout.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from apiserver_stub.webhook_credentials import WebhookCredentials
from nodeagent.base import kubeconfig, tracing
from nodeagent.base.aio import Backoff, Clock, SystemClock
from nodeagent.base.exec_plugin import ExecPluginError
from nodeagent.base.file_signature import file_signatures
from nodeagent.base.kubeconfig import Fault, Kubeconfig, KubeconfigError
from nodeagent.base.structs import Struct

if TYPE_CHECKING:
    import aiohttp

    from apiserver_stub.egress.dialing import Dialer

_log = logging.getLogger(__name__)

ATTEMPTS = 5
ATTEMPT_SECONDS = 30.0
_FIRST_PAUSE_SECONDS, _FACTOR, _JITTER = 0.5, 1.5, 0.2
_MAX_RETRY_AFTER_SECONDS = 30.0
_MAX_RESPONSE_BYTES = 3 << 20
_HEADERS = {"Content-Type": "application/json", "Accept": "application/json, */*"}


class WebhookError(Exception):
    """The request to the webhook failed, or its response is invalid."""


class _Transient(WebhookError):
    """A failure that is retried, after *pause_seconds* if the service requested that."""

    def __init__(self, message: str, pause_seconds: float | None = None) -> None:
        super().__init__(message)
        self.pause_seconds = pause_seconds


class WebhookResponse(Struct, frozen=True):
    """A response, of any status code."""

    status: int
    data: bytes
    retry_after: str

    def document(self) -> Any:
        """Return the decoded body.

        :raises WebhookError: the body is not valid JSON.
        """
        try:
            return msgspec.json.decode(self.data)
        except (ValueError, RecursionError) as error:
            raise WebhookError(f"invalid JSON response: {error}") from error


async def exchange(
    session: aiohttp.ClientSession,
    url: str,
    data: bytes,
    *,
    seconds: float,
    context: ssl.SSLContext | None = None,
    server_name: str | None = None,
    authorization: str = "",
    proxy: str = "",
    max_bytes: int = _MAX_RESPONSE_BYTES,
) -> WebhookResponse:
    """Post JSON once, with the timeout as the query parameter ``timeout``.

    :param context: TLS context that verifies the server; ``None`` for plain HTTP.
    :param server_name: name to verify in the certificate; the host of *url* by default.
    :param proxy: URL of an HTTP proxy; empty for a direct connection.
    :raises WebhookError: the response has more than *max_bytes*.
    :raises TimeoutError: the response is not complete after *seconds*.
    :raises aiohttp.ClientError: the connection failed.
    """
    headers = _HEADERS | {"Authorization": authorization} if authorization else _HEADERS
    with tracing.child("HTTP POST", lambda: {"http.method": "POST", "http.url": url}, kind="client"):
        if sent := tracing.outgoing():
            headers = {**headers, **sent}
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
                proxy=proxy or None,
            ) as response,
        ):
            pieces, size = [], 0
            async for piece in response.content.iter_any():
                size += len(piece)
                if size > max_bytes:
                    raise WebhookError(f"response exceeds {max_bytes} bytes")
                pieces.append(piece)
            tracing.annotate(lambda: {"http.status_code": response.status})
            return WebhookResponse(response.status, b"".join(pieces), response.headers.get("Retry-After", ""))


class Poster(Protocol):
    """Client that posts reviews to a webhook."""

    async def post(self, body: Any) -> Any:
        """Post *body* and return the decoded response.

        :raises WebhookError: the request failed.
        """
        ...


class Webhook:
    """Client that posts JSON to the service of a kubeconfig; an async context manager.

    Changed certificate and token files are reloaded before each attempt. An exec plugin provides new credentials after
    the service rejected the previous ones.

    :param retry_all: retry after any failure, not only after transient ones.
    :param dialer: opens the connections; direct ones by default.
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
        dialer: Dialer | None = None,
    ) -> None:
        """Read the kubeconfig at *path*.

        :raises KubeconfigError: the kubeconfig or a file that it names is invalid, or names a proxy besides *dialer*.
        """
        self._config: Kubeconfig = kubeconfig.load(path)
        self._signatures = file_signatures(self._config.files())
        self._context = self._config.ssl_context()
        self._proxy = self._config.proxy()
        self._dialer = dialer
        if self._proxy and dialer is not None:
            rule = "cannot be used with an egress selection for controlplane"
            raise KubeconfigError([Fault(str(path), "proxy-url", None, rule)])
        self._certificate = self._config.client_certificate
        self._credentials = WebhookCredentials(self._config, clock or SystemClock())
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
        """Post *body* and return the decoded response.

        :raises WebhookError: all attempts failed, or the response is invalid.
        """
        return (await self.send(msgspec.json.encode(body) + b"\n")).document()

    async def send(self, data: bytes) -> WebhookResponse:
        """Post *data*, which is JSON, and return the response; transient failures are retried with exponential backoff.

        :raises WebhookError: all attempts failed.
        """
        pauses = Backoff(self._first_pause_seconds, inf, factor=_FACTOR, jitter=_JITTER)
        for attempt in range(1, self._attempts + 1):
            try:
                return await self._send_once(data)
            except WebhookError as error:
                if not isinstance(error, _Transient) and not self._retry_all:
                    raise
                _log.info("Webhook request failed", extra={"server": self._config.server, "err": error})
                if attempt == self._attempts:
                    raise
                pause, retry_after = pauses.next(), error.pause_seconds if isinstance(error, _Transient) else None
                await self._clock.sleep(pause if retry_after is None else retry_after)
        raise AssertionError("unreachable")

    def _authorize(self) -> str:
        """Reload changed certificates and return the ``Authorization`` header. Reads the disk or runs the plugin.

        Invalid certificate files are logged, and the previous ones remain in use.

        :raises KubeconfigError: the token file cannot be read.
        :raises ExecPluginError: the plugin failed.
        """
        config, signatures = self._credentials.current(), file_signatures(self._config.files())
        if signatures != self._signatures or config.client_certificate != self._certificate:
            self._signatures, self._certificate = signatures, config.client_certificate
            try:
                self._context = config.ssl_context()
            except KubeconfigError as error:
                _log.error("Failed to reload certificate files, keeping the previous ones", extra={"err": error})
        return config.authorization()

    async def _send_once(self, data: bytes) -> WebhookResponse:
        import aiohttp  # Deferred: many modules, for servers that call webhooks.

        try:
            authorization = await asyncio.to_thread(self._authorize)
            if self._session is None:
                from apiserver_stub.egress.connector import new_session

                self._session = new_session(self._dialer)
            response = await exchange(
                self._session,
                self._config.server,
                data,
                seconds=self._attempt_seconds,
                context=self._context,
                server_name=self._config.tls_server_name,
                authorization=authorization,
                proxy=self._proxy,
            )
        except aiohttp.ClientSSLError as error:  # A retry would receive the same certificate.
            raise WebhookError(f"{type(error).__name__}: {error}") from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _Transient(f"{type(error).__name__}: {error}") from error
        except (KubeconfigError, ExecPluginError) as error:
            raise WebhookError(str(error)) from error
        if response.status == 401 and self._credentials.renewable:
            self._credentials.reject()
            raise _Transient("the service rejected the credentials of the exec plugin")
        if 200 <= response.status < 300:
            return response
        problem, retry_after = f"unexpected HTTP status {response.status}", response.retry_after
        if response.status >= 500 or response.status == 429 or retry_after:
            pause = min(float(retry_after), _MAX_RETRY_AFTER_SECONDS) if retry_after.isdecimal() else None
            raise _Transient(problem, pause)
        raise WebhookError(problem)
