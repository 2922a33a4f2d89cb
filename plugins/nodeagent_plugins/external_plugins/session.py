"""Connection to one out-of-process plugin: negotiation, health checks, and calls with translated errors."""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol

import nodeagent
from nodeagent.base.aio import Clock
from nodeagent.base.aio.waker import wait_for
from nodeagent.base.plugin_rpc import Connection, Method, RpcError, connect, methods_of
from nodeagent.base.pluginproto import plugin_v1_pb2 as api
from nodeagent.errors import PluginDisconnected, PluginError, PluginTimeout
from nodeagent_plugins.external_plugins.capabilities import NUMBERS
from nodeagent_plugins.external_plugins.settings import ExternalPlugin

SUPPORTED_VERSIONS = ("v1",)
"""Versions of the protocol, the preferred one first."""
_FAILED_HEALTH_CHECKS = 3
_MAX_MESSAGE_BYTES = 16 * 1024 * 1024
_METHODS = methods_of(api.DESCRIPTOR.services_by_name["Plugin"])
_TRANSIENT = ("ResourceExhausted", "Canceled", "Aborted")

_log = logging.getLogger(__name__)


class Connect(Protocol):
    """Opens a connection, as :func:`nodeagent.base.plugin_rpc.connect` does."""

    def __call__(
        self, socket: str, deadline_seconds: float, /, *, max_message_bytes: int
    ) -> AbstractAsyncContextManager[Connection]:
        """Return the connection for an ``async with`` block."""
        ...


class NegotiationError(Exception):
    """The plugin cannot be used; the message contains the reason."""


class NotListening(NegotiationError):
    """The plugin does not accept connections."""


class Session:
    """Calls of one plugin over its current connection.

    :param node_name: name of this node, for the plugin.
    :param connect: opens connections.
    :param on_failure: called with the reason of each lost connection or failed negotiation.
    """

    def __init__(
        self,
        plugin: ExternalPlugin,
        node_name: str,
        clock: Clock,
        *,
        on_failure: Callable[[str], None] = lambda reason: None,
        connect: Connect = connect,
    ) -> None:
        self.plugin = plugin
        self._node_name, self._clock = node_name, clock
        self._on_failure, self._connect = on_failure, connect
        self.on_connected: list[Callable[[], None]] = []
        """Called after each negotiation."""
        self._connection: Connection | None = None
        self._settled = asyncio.Event()
        self._problem = ""
        self._version = ""

    @property
    def connected(self) -> bool:
        """True if the plugin can be called."""
        return self._connection is not None

    @property
    def is_starting(self) -> bool:
        """True while the plugin is started or connected for the first time since its last failure."""
        return self._connection is None and not self._settled.is_set()

    @property
    def version(self) -> str:
        """Version of the plugin, empty before the first connection."""
        return self._version

    async def wait_connected(self) -> None:
        """Wait until the plugin can be called."""
        while self._connection is None:
            await self._settled.wait()
            if self._connection is None:
                await self._clock.sleep(1.0)

    async def call(self, hook: str, method: Method, request: Any, seconds: float) -> Any:
        """Send *request* and return the response; wait for a plugin that is starting.

        :param hook: name of the hook, for errors.
        :param seconds: time limit.
        :raises PluginDisconnected: the plugin is not running, or the connection was lost.
        :raises PluginTimeout: the plugin did not respond in time.
        :raises PluginError: the plugin returned an error.
        """
        due = self._clock.now() + seconds
        if self._connection is None:
            await wait_for(self._settled, self._clock, seconds)
        connection = self._connection
        if connection is None:
            reason = self._problem or f"is not connected after {seconds:g} s"
            raise PluginDisconnected(self.plugin.name, f"{hook} failed: {reason}")
        try:
            return await connection.call(method, request, max(due - self._clock.now(), 0.0))
        except RpcError as error:
            failure = error
        raise self._translated(hook, failure, seconds)

    async def stream(self, method: Method, request: Any) -> AsyncIterator[Any]:
        """Send *request* and yield the responses until the stream or the connection ends.

        :raises PluginError: the stream failed.
        """
        connection = self._connection
        if connection is None:
            raise PluginDisconnected(self.plugin.name, self._problem or "is not connected")
        try:
            async for response in connection.stream(method, request):
                yield response
        except RpcError as error:
            failure = error
        else:
            return
        raise self._translated(method.path.rpartition("/")[2], failure, 0)

    @asynccontextmanager
    async def opened(self, socket: str) -> AsyncIterator[Connection]:
        """Connect to *socket*, negotiate, and accept calls until the end of the block.

        :raises NotListening: the plugin does not accept connections.
        :raises NegotiationError: the plugin did not respond within its start time, or is unsuitable.
        """
        seconds = self.plugin.start_seconds
        async with self._connect(socket, math.inf, max_message_bytes=_MAX_MESSAGE_BYTES) as connection:
            try:
                async with asyncio.timeout(seconds):
                    await _wait_ready(connection, seconds)
                    await self._negotiate(connection)
            except RpcError as error:
                raise NegotiationError(f"failed to register: {error.code}: {error.details}") from error
            except TimeoutError:
                raise NegotiationError(f"did not register within {seconds:g} s") from None
            self._connection, self._problem = connection, ""
            self._settled.set()
            for notify in self.on_connected:
                notify()
            try:
                yield connection
            finally:
                self._connection = None
                self._settled.clear()

    async def watch(self, connection: Connection) -> str:
        """Wait until the connection is lost or health checks fail, and return the reason."""
        broken = asyncio.ensure_future(connection.wait_broken())
        unhealthy = asyncio.ensure_future(self._wait_unhealthy(connection))
        try:
            await asyncio.wait((broken, unhealthy), return_when=asyncio.FIRST_COMPLETED)
            return unhealthy.result() if unhealthy.done() else "the connection was lost"
        finally:
            for task in (broken, unhealthy):
                task.cancel()
            await asyncio.gather(broken, unhealthy, return_exceptions=True)

    def starting(self) -> None:
        """Make calls wait for the connection."""
        self._settled.clear()

    def failed(self, reason: str) -> None:
        """Make calls fail with *reason* until the next attempt."""
        self._problem = reason
        self._settled.set()
        self._on_failure(reason)

    async def _negotiate(self, connection: Connection) -> None:
        name = self.plugin.name
        request = api.GetPluginInfoRequest(supported_versions=SUPPORTED_VERSIONS, agent_version=nodeagent.__version__)
        info = await connection.call(_METHODS["GetPluginInfo"], request)
        if info.name != name:
            raise NegotiationError(f"has the name {info.name[:80]!r} instead of {name!r}")
        version = next((each for each in SUPPORTED_VERSIONS if each in info.supported_versions), None)
        if version is None:
            theirs = ", ".join(info.supported_versions)[:200]
            rule = f"the agent supports {', '.join(SUPPORTED_VERSIONS)}, the plugin {theirs or 'none'}"
            raise NegotiationError(f"has no protocol version in common with the agent: {rule}")
        granted = self.plugin.capabilities
        lacking = sorted(each for each in granted if NUMBERS[each] not in info.capabilities)
        if lacking:
            raise NegotiationError(f"does not provide the capabilities {', '.join(lacking)}, which its settings list")
        registration = api.RegisterRequest(
            version=version,
            capabilities=sorted(each.upper() for each in granted),
            settings=json.dumps(self.plugin.settings).encode(),
            node_name=self._node_name,
        )
        await connection.call(_METHODS["Register"], registration)
        self._version = info.version[:80]
        _log.info(
            "Registered out-of-process plugin",
            extra={"plugin": name, "pluginVersion": self._version, "protocolVersion": version},
        )

    async def _wait_unhealthy(self, connection: Connection) -> str:
        request = api.GetPluginInfoRequest(supported_versions=SUPPORTED_VERSIONS)
        failures = 0
        while True:
            await self._clock.sleep(self.plugin.health_seconds)
            try:
                await connection.call(_METHODS["GetPluginInfo"], request, self.plugin.health_seconds)
                failures = 0
            except RpcError as error:
                failures += 1
                if failures == _FAILED_HEALTH_CHECKS:
                    return f"failed {failures} health checks: {error.code}: {error.details}"

    def _translated(self, hook: str, error: RpcError, seconds: float) -> PluginError:
        name = self.plugin.name
        if error.code == "Unavailable":
            return PluginDisconnected(name, f"{hook} failed: the connection was lost: {error.details}")
        if error.code == "DeadlineExceeded":
            return PluginTimeout(name, f"{hook} exceeded its deadline of {seconds:g} s")
        failure = PluginError(name, f"{hook} failed: {error.code}: {error.details}")
        failure.transient = error.code in _TRANSIENT
        return failure


async def _wait_ready(connection: Connection, seconds: float) -> None:
    try:
        await connection.wait_ready(seconds)
    except RpcError as error:
        raise NotListening(f"failed to connect: {error.details}") from error
