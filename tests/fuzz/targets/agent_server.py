"""HTTPS server of the agent: requests for exec, logs, pods and profiles, with and without credentials."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

from aiohttp import web, web_fileresponse

from nodeagent.base.aio import SystemClock
from nodeagent.contracts.runtime import ContainerState, RuntimeContainerStatus, RuntimePod
from nodeagent.contracts.server import (
    AccessRecord,
    AuthorizationAttributes,
    Exposure,
    RequestCredentials,
    Route,
    Unauthenticated,
    User,
)
from nodeagent.server.access import Access
from nodeagent.server.access_recorder import AccessRecorder
from nodeagent.server.app import build_app
from nodeagent.server.connection import Connection
from nodeagent.testing import FakeClock, FakePodDirectory, FakeRuntime, make_config, make_context, make_pod
from nodeagent_plugins import routes_exec, routes_pods
from nodeagent_plugins.routes_debug.flags import set_verbosity
from nodeagent_plugins.routes_logs import journal, log_routes
from tests.fuzz.connections import Transport, drive
from tests.fuzz.target import target
from tests.fuzz.targets.http import HTTP1

TOKEN, ENCODED_TOKEN = b"let-me-in", b"bGV0LW1lLWlu"
SECRET = "outside of the directory"
POD = make_pod("web", containers=["main"])
GATES = {"ExtendWebSocketsToNodeAgent": True, "NodeLogQuery": True}
SWITCHING = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n"
_STREAMS = ("/exec/", "/attach/", "/portForward/", "/run/")
_PIECE_BYTES = 11
_STEPS_PER_PIECE, _STEPS = 3, 60


class _Runtime(asyncio.Transport):
    """The runtime's end of a stream, which accepts the upgrade and sends back what it receives."""

    def __init__(self, client: asyncio.Protocol) -> None:
        super().__init__()
        self._client, self._accepted, self._closing = client, False, False

    def write(self, data: Any) -> None:
        response, self._accepted = (bytes(data) if self._accepted else SWITCHING), True
        asyncio.get_running_loop().call_soon(self._receive, response)

    def _receive(self, data: bytes) -> None:
        if not self._closing:
            self._client.data_received(data)

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            asyncio.get_running_loop().call_soon(self._client.connection_lost, None)

    abort = close

    def pause_reading(self) -> None:
        """Do nothing: at most the data of one input is received."""

    resume_reading = pause_reading

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Do nothing: everything is written."""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default


class _Access:
    """Authenticator of one token, and authorizer that records what it has allowed."""

    def __init__(self) -> None:
        self.allowed: list[AuthorizationAttributes] = []

    async def authenticate(self, credentials: RequestCredentials) -> User | None:
        if credentials.token is None:
            return None
        if credentials.token.reveal().encode(errors="surrogateescape") != TOKEN:
            raise Unauthenticated("invalid token")
        return User(name="admin")

    async def allows(self, attributes: AuthorizationAttributes) -> bool:
        self.allowed.append(attributes)
        return True


class _Records:
    """Queue that checks the limits of access records."""

    needed = True

    def put(self, value: AccessRecord) -> None:
        assert len(value.uri) <= 8192
        assert len(value.user_agent) <= 1024


class _Server:
    """The application, with the requests that reached a handler and the errors that it does not expect."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, str]] = []
        self.failures: list[BaseException] = []
        self.access = _Access()
        clock = FakeClock()
        directory = Path(tempfile.mkdtemp(prefix="agent-server-"))
        root = _write_logs(directory)
        runtime = FakeRuntime(clock)
        container = runtime.start("main", POD)
        pods = FakePodDirectory()
        pods.add(POD, observed=_observed(container, directory))
        config = make_config(feature_gates=GATES, enable_system_log_query=True)
        context = make_context(directory, clock=clock, runtime=runtime, pods=pods, config=config)
        routes = [
            *routes_exec.nodeagent_provide_routes(context),
            *routes_pods.nodeagent_provide_routes(context),
            *log_routes(context, root),
            Route("PUT", "/debug/flags/v", set_verbosity, Exposure.DEBUG_HIDDEN),
        ]
        access = Access("node-1", [self.access], self.access, _trusted)
        self._app = build_app(
            [self._observed(route) for route in routes],
            access=access,
            debugging=True,
            recorder=AccessRecorder(SystemClock(), _Records()),
        )
        self._runner: web.AppRunner | None = None

    async def connect(self, on_close: Callable[[], None]) -> Connection:
        if self._runner is None:
            runner = web.AppRunner(self._app, access_log=None, handle_signals=False, handler_cancellation=True)
            await runner.setup()
            self._runner = runner
        server = self._runner.server
        assert server is not None
        return _ObservedConnection(server, on_close, self.failures)

    @property
    def connections(self) -> Sequence[Any]:
        assert self._runner is not None
        assert self._runner.server is not None
        return self._runner.server.connections

    def _observed(self, route: Route) -> Route:
        async def handle(request: web.Request) -> web.StreamResponse:
            self.requests.append((request.method, request.path_qs, route.path))
            granted = self.access.allowed[-1]
            expected = "create" if route.path.startswith(_STREAMS) else granted.verb
            assert granted.verb == expected, f"{route.path} was authorized with {granted.verb}"
            return await route.handler(request)

        return Route(
            route.method,
            route.path,
            handle,
            route.exposure,
            subresources=route.subresources,
            verb=route.verb,
            rejection=route.rejection,
            streams=route.streams,
            fine_grained=route.fine_grained,
        )


class _ObservedConnection(Connection):
    """Connection that reports errors of handlers to the test."""

    __slots__ = ("_failures",)

    def __init__(self, server: web.Server, on_close: Callable[[], None], failures: list[BaseException]) -> None:
        super().__init__(server, on_close)
        self._failures = failures

    def handle_error(self, request: Any, status: int = 500, exc: Any = None, message: str | None = None) -> Any:
        if status == 500 and exc is not None and not isinstance(exc, ConnectionError):
            self._failures.append(exc)
        return super().handle_error(request, status, exc, message)


@target(
    tokens=(
        *HTTP1,
        b"Authorization: Bearer " + TOKEN + b"\r\n",
        b"Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io." + ENCODED_TOKEN + b", v5.channel.k8s.io\r\n",
        b"GET /containerLogs/default/web/main?",
        b"GET /logs/",
        b"POST /exec/default/web/main?command=a&input=1&output=1 HTTP/1.1\r\n",
        b"POST /portForward/default/web",
        b"POST /run/default/web/main?cmd=a",
        b"Connection: Upgrade\r\n",
        b"Upgrade: SPDY/3.1\r\n",
        b"X-Stream-Protocol-Version: v4.channel.k8s.io\r\n",
        b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n",
        b"Sec-WebSocket-Version: 13\r\n",
        b"Sec-WebSocket-Protocol: SPDY/3.1+portforward.k8s.io\r\n",
        b"query=",
        b"tailLines=",
        b"sinceTime=2024-01-01T00:00:00Z",
        b"pattern=",
        b"&follow=true",
        b"%2e%2e/",
        b"Range: bytes=0-\r\n",
    )
)
def agent_request(data: bytes) -> None:
    """Handlers run only for requests with the token, and never depend on how the bytes are divided.

    No file outside of the directory of the logs is sent, and nothing is left of a lost connection.
    """
    complete = drive(_requests([data]))
    pieces = drive(_requests([data[at : at + _PIECE_BYTES] for at in range(0, len(data), _PIECE_BYTES)]))
    # A malformed request ends the connection, with all requests that were received together with it.
    assert pieces[: len(complete)] == complete
    if TOKEN not in data and b"bearer.authorization.k8s.io" not in data.lower():
        assert not pieces


async def _requests(pieces: Sequence[bytes]) -> list[tuple[str, str, str]]:
    server, transport, closed = _server(), Transport(), []
    server.requests.clear()
    server.failures.clear()
    server.access.allowed.clear()
    loop = asyncio.get_running_loop()
    with (
        patch.object(loop, "create_connection", _connect_to_runtime),
        patch.object(loop, "run_in_executor", _run_immediately),
        patch.object(journal, "_start", _start_no_journal),
        patch.object(web_fileresponse, "NOSENDFILE", True),  # As with TLS.
    ):
        before = asyncio.all_tasks()
        connection = await server.connect(lambda: closed.append(1))
        protocols: list[asyncio.BaseProtocol] = [connection]
        transport.set_protocol = protocols.append  # type: ignore[method-assign]
        connection.connection_made(transport)
        for piece in pieces:
            if transport.is_closing():
                break
            protocols[-1].data_received(piece)  # type: ignore[attr-defined]
            await _steps(_STEPS_PER_PIECE)
        await _steps(_STEPS)
        for protocol in reversed(protocols):
            protocol.connection_lost(None)
        await _steps(_STEPS)
        left = asyncio.all_tasks() - before
    if server.failures:
        raise server.failures[0]
    assert closed == [1]
    assert not left, f"tasks are left: {left}"
    assert not server.connections
    assert SECRET.encode() not in transport.written
    return list(server.requests)


async def _steps(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def _connect_to_runtime(factory: Callable[[], asyncio.Protocol], host: str, port: int) -> Any:
    protocol = factory()
    transport = _Runtime(protocol)
    protocol.connection_made(transport)
    return transport, protocol


def _run_immediately(_executor: Any, function: Callable[..., Any], *arguments: Any) -> asyncio.Future[Any]:
    future = asyncio.get_running_loop().create_future()
    try:
        future.set_result(function(*arguments))
    except Exception as error:
        future.set_exception(error)
    return future


async def _start_no_journal(arguments: Sequence[str]) -> Any:
    assert all("\0" not in argument for argument in arguments)
    raise FileNotFoundError("journalctl")


async def _trusted(_context: Any) -> bool:
    return True


def _write_logs(directory: Path) -> Path:
    """Write system logs, the log of the container, and a file outside; return the directory of the system logs."""
    root = directory / "system"
    (root / "unit").mkdir(parents=True)
    files: Mapping[Path, str] = {
        root / "syslog": "one\ntwo\nthree\n",
        root / "unit" / "unit.log": "four\n",
        directory / "secret": SECRET,
        directory / "pods" / "default_web_uid" / "main" / "0.log": "2024-01-01T00:00:01.5Z stdout F hello\n",
    }
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (root / "outside").symlink_to(directory / "secret")
    (root / "inside").symlink_to("syslog")
    return root


def _observed(container: str, directory: Path) -> RuntimePod:
    path = directory / "pods" / "default_web_uid" / "main" / "0.log"
    run = RuntimeContainerStatus(
        container, "main", 0, ContainerState.RUNNING, 0, 0, 0, 0, "image", "image", log_path=str(path)
    )
    return RuntimePod(POD.uid, "web", "default", containers=[run])


@cache
def _server() -> _Server:
    return _Server()
