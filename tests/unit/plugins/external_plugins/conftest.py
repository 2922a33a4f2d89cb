"""In-memory fake of the protocol, and a session that is connected to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from nodeagent.base.plugin_rpc import Method
from nodeagent.base.pluginproto import plugin_v1_pb2 as api
from nodeagent.testing import FakeClock
from nodeagent_plugins.external_plugins.hook_calls import HookCalls
from nodeagent_plugins.external_plugins.session import Session
from nodeagent_plugins.external_plugins.settings import CAPABILITIES, ExternalPlugin


class FakePlugin:
    """A plugin whose responses are attributes by method name: a message, an exception, or a function of the request."""

    def __init__(self) -> None:
        self.info = api.GetPluginInfoResponse(
            name="shelf", version="1.2", supported_versions=["v1"], capabilities=list(api.Capability.values())
        )
        self.responses: dict[str, Any] = {
            "GetPluginInfo": lambda _request: self.info,
            "Register": api.RegisterResponse(),
        }
        self.requests: list[tuple[str, Any]] = []
        self.timeouts: list[float | None] = []
        self.broken = asyncio.Event()

    def last(self, name: str) -> Any:
        """Return the last request of a method."""
        return next(request for method, request in reversed(self.requests) if method == name)

    # --- Connection -------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def connect(self, _socket: str, _deadline: float, *, max_message_bytes: int) -> AsyncIterator[Any]:
        assert max_message_bytes
        yield self

    async def wait_ready(self, _seconds: float) -> None:
        """Return immediately."""

    async def wait_broken(self) -> None:
        await self.broken.wait()

    async def call(self, method: Method, request: Any, timeout_seconds: float | None = None) -> Any:
        name = method.path.rpartition("/")[2]
        self.requests.append((name, request))
        self.timeouts.append(timeout_seconds)
        response = self.responses[name]
        if isinstance(response, Exception):
            raise response
        if callable(response):
            response = response(request)
        if isinstance(response, asyncio.Event):
            await response.wait()
        return response

    async def stream(self, method: Method, request: Any) -> AsyncIterator[Any]:
        for each in await self.call(method, request):
            yield each


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def plugin() -> FakePlugin:
    return FakePlugin()


@pytest.fixture
def settings() -> ExternalPlugin:
    return ExternalPlugin(
        name="shelf",
        capabilities=frozenset(CAPABILITIES),
        command=("/bin/shelf",),
        settings={"color": "red"},
        volume_drivers=frozenset({"shelf.example"}),
    )


@pytest.fixture
async def failures() -> list[str]:
    return []


@pytest.fixture
async def session(plugin: FakePlugin, settings: ExternalPlugin, clock: FakeClock, failures: list[str]) -> Session:
    """Session that is not connected."""
    return Session(settings, "node-1", clock, on_failure=failures.append, connect=plugin.connect)


@pytest.fixture
async def connected(session: Session) -> AsyncIterator[Session]:
    async with session.opened("/run/plugin.sock"):
        yield session


@pytest.fixture
def call(connected: Session) -> HookCalls:
    deadline_of: Callable[[str], float] = lambda _hook: 10.0  # noqa: E731
    return HookCalls(connected, deadline_of)
