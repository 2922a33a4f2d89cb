"""Lifecycle hooks postStart and preStop: exec, HTTP or sleep."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Sequence
from urllib.parse import urljoin, urlsplit, urlunsplit

from nodeagent.base.aio import Clock
from nodeagent.base.release import OLDEST, Release
from nodeagent.contracts.runtime import ContainerRuntime
from nodeagent.errors import NodeAgentError, RuntimeFailure
from nodeagent.model.pod import ContainerPort, HttpGetAction, LifecycleHandler
from nodeagent.model.ports import port_number
from nodeagent_plugins.pod_sync.metrics import EARLY_SLEEPS

_MAX_BODY_BYTES = 10 * 1024
_MAX_MESSAGE = 1024
_MAX_REDIRECTS = 10
_CONNECT_SECONDS = 30.0


class HookFailure(NodeAgentError):
    """A hook failed; the text is for logs and not for events."""

    reason = "HookError"


class LifecycleHooks:
    """Executes lifecycle hooks.

    :param sleep_enabled: allow the ``sleep`` action (feature gate ``PodLifecycleSleepAction``).
    :param release: the release in the user agent of HTTP requests.
    """

    def __init__(
        self,
        runtime: Callable[[], ContainerRuntime],
        clock: Clock,
        *,
        sleep_enabled: bool,
        release: Release = OLDEST,
    ) -> None:
        self._user_agent = f"kube-lifecycle/{release}"
        self._runtime, self._clock, self._sleep_enabled = runtime, clock, sleep_enabled

    async def run(
        self,
        handler: LifecycleHandler,
        container_id: str,
        where: str,
        *,
        ports: Sequence[ContainerPort] = (),
        pod_ip: str = "",
        on_fallback: Callable[[], None] = lambda: None,
    ) -> None:
        """Execute one hook; the caller sets a timeout.

        :param where: container and pod for error texts: ``Container "web" in Pod "a_b(uid)"``.
        :param on_fallback: called if an HTTPS request was repeated over plain HTTP.
        :raises HookFailure: the hook failed.
        """
        if handler.exec is not None:
            await self._exec(handler.exec.command or [], container_id, where)
        elif handler.http_get is not None:
            await self._http(handler.http_get, where, ports, pod_ip, on_fallback)
        elif handler.sleep is not None and self._sleep_enabled:
            try:
                await self._clock.sleep(handler.sleep.seconds)
            except asyncio.CancelledError:  # The grace period is over.
                EARLY_SLEEPS.inc()
                raise
        else:
            raise HookFailure(f"Invalid lifecycle hook for {where}: no supported action")

    async def _exec(self, command: Sequence[str], container_id: str, where: str) -> None:
        prefix = f"Exec lifecycle hook ([{' '.join(command)}]) for {where} failed"
        try:
            result = await self._runtime().exec_sync(container_id, command, 0)
        except (RuntimeFailure, TimeoutError) as error:
            raise HookFailure(f"{prefix} - error: {error}") from error
        if result.exit_code != 0:
            output = (result.stdout + result.stderr)[:_MAX_MESSAGE].decode("utf-8", "replace")
            raise HookFailure(
                f"{prefix} - error: command '{' '.join(command)}' exited with {result.exit_code}, message: {output!r}"
            )

    async def _http(
        self,
        action: HttpGetAction,
        where: str,
        ports: Sequence[ContainerPort],
        pod_ip: str,
        on_fallback: Callable[[], None],
    ) -> None:
        import aiohttp  # Imported only for pods with HTTP hooks.

        url = _url(action, ports, pod_ip, where)
        headers = {"User-Agent": self._user_agent, "Accept": "*/*"}
        headers |= {header.name: header.value for header in action.http_headers or ()}
        headers = {name: value for name, value in headers.items() if value or name.lower() != "accept"}
        try:
            try:
                await _get(url, headers)
            except aiohttp.ClientConnectorSSLError as error:
                if not url.startswith("https:") or not _is_plain_response(error):
                    raise
                plain = {name: value for name, value in headers.items() if name.lower() != "authorization"}
                await _get("http" + url.removeprefix("https"), plain)
                on_fallback()
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            raise HookFailure(
                f"HTTP lifecycle hook ({action.path}) for {where} failed - error: {str(error) or repr(error)}"
            ) from error


async def _get(url: str, headers: dict[str, str]) -> None:
    """Request *url* and follow redirects on the same host; the status of the response is ignored.

    There is no timeout, because a server may drain its clients before it responds; the stop of the container limits it.
    """
    import aiohttp

    timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS)
    connector = aiohttp.TCPConnector(ssl=False, force_close=True)
    async with aiohttp.ClientSession(
        connector=connector,
        timeout=timeout,
        auto_decompress=False,
        skip_auto_headers=("Accept", "Accept-Encoding"),
    ) as session:
        for _ in range(_MAX_REDIRECTS):
            async with session.get(url, headers=headers, allow_redirects=False) as response:
                await response.content.read(_MAX_BODY_BYTES)
                target = response.headers.get("Location", "")
                if response.status not in (301, 302, 303, 307, 308) or not target:
                    return
                following = urljoin(url, target)
                if urlsplit(following).hostname != urlsplit(url).hostname:
                    return
                url = following
    raise ValueError(f"stopped after {_MAX_REDIRECTS} redirects")


def _url(action: HttpGetAction, ports: Sequence[ContainerPort], pod_ip: str, where: str) -> str:
    host = action.host or pod_ip
    if not host:
        raise HookFailure(f"HTTP lifecycle hook ({action.path}) for {where} failed - error: pod has no IP address")
    port = port_number(action.port, ports)
    if port is None:
        raise HookFailure(f"HTTP lifecycle hook ({action.path}) for {where} failed - error: no port {action.port!r}")
    host = f"[{host}]" if ":" in host else host
    path, _, query = action.path.partition("?")
    return urlunsplit((action.scheme.lower() or "http", f"{host}:{port}", f"/{path.removeprefix('/')}", query, ""))


def _is_plain_response(error: BaseException) -> bool:
    """Return whether TLS failed because the server uses plain HTTP."""
    cause: BaseException | None = error
    while cause is not None:
        reason = getattr(cause, "reason", None)  # aiohttp's SSLError has no reason.
        if isinstance(cause, ssl.SSLError) and reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST"):
            return True
        cause = getattr(cause, "os_error", None) or cause.__cause__
    return False
