"""Registered drivers, and calls of their node service."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache
from time import monotonic
from types import ModuleType
from typing import Any

from msgspec import field

from nodeagent.base.logging import v_level
from nodeagent.base.metrics import Histogram
from nodeagent.base.plugin_rpc import Connection, Method, RpcError, connect, methods_of
from nodeagent.base.structs import MutableStruct, Struct
from nodeagent.errors import TransientVolumeError, UncertainVolumeError, VolumeError

TIMEOUT_SECONDS = 120.0
"""Time limit of one step: queries of capabilities and the call."""
STAGE_UNSTAGE, GET_STATS, EXPAND, CONDITION, MULTI_WRITER, MOUNT_GROUP = range(1, 7)
_UNCERTAIN = frozenset({"Canceled", "DeadlineExceeded", "Unavailable", "ResourceExhausted", "Aborted"})
_DURATIONS = Histogram(
    "csi_operations_seconds",
    "Container Storage Interface operation duration with gRPC error code status total",
    ("driver_name", "method_name", "grpc_status_code", "migrated"),
    bounds=(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600),
    prefixed=False,
)
_log = logging.getLogger(__name__)


def _messages() -> ModuleType:
    # Only a node with CSI drivers needs the memory for these messages.
    from nodeagent.base.pluginproto import csi_pb2

    return csi_pb2


@cache
def _methods() -> Mapping[str, Method]:
    return methods_of(_messages().DESCRIPTOR.services_by_name["Node"])


class NodeInfo(Struct, frozen=True):
    """A driver's description of this node."""

    node_id: str
    max_volumes: int = 0
    topology: Mapping[str, str] = field(default_factory=dict)


class _SharedConnection(MutableStruct, eq=False):
    """A connection that is closed by the last of its users."""

    connection: Connection
    stack: AsyncExitStack
    users: int = 0


@dataclasses.dataclass(eq=False, slots=True)
class Driver:
    """A registered driver; a new registration creates another object, without the cached capabilities."""

    name: str
    endpoint: str
    version: tuple[int, ...] = (1, 0, 0)
    capabilities: frozenset[int] | None = None
    _shared: _SharedConnection | None = dataclasses.field(default=None, repr=False)

    @asynccontextmanager
    async def shared_step(self) -> AsyncIterator[Step]:
        """Provide a connection for a query; concurrent queries share one, and its deadline is at most half used."""
        shared = self._shared
        if shared is None or shared.connection.remaining_seconds < TIMEOUT_SECONDS / 2:
            stack = AsyncExitStack()
            connection = await stack.enter_async_context(connect(self.endpoint, TIMEOUT_SECONDS))
            shared = self._shared = _SharedConnection(connection, stack)
        shared.users += 1
        try:
            yield Step(self, shared.connection)
        finally:
            shared.users -= 1
            if not shared.users:
                if self._shared is shared:
                    self._shared = None
                await shared.stack.aclose()

    @asynccontextmanager
    async def step(self, *, migrated: bool = False) -> AsyncIterator[Step]:
        """Provide a connection for one step.

        :param migrated: label of metrics: the volume has an in-tree source that was translated to this driver.
        """
        async with connect(self.endpoint, TIMEOUT_SECONDS) as connection:
            yield Step(self, connection, migrated=migrated)


class Step:
    """Calls of a driver within one step, which share a deadline."""

    def __init__(self, driver: Driver, connection: Connection, *, migrated: bool = False) -> None:
        self._driver, self._connection = driver, connection
        self._migrated = "true" if migrated else "false"

    async def call(self, method: str, **fields: Any) -> Any:
        """Call *method* with a request of *fields*; requests contain secrets and are never logged.

        :raises RpcError: the call failed.
        :raises TransientVolumeError: a field is not valid UTF-8.
        """
        try:
            request = getattr(_messages(), f"{method}Request")(**fields)
        except (ValueError, UnicodeError):
            # The original error contains the value, which may be a secret.
            raise TransientVolumeError(f"{method}: secrets and attributes must be valid UTF-8") from None
        started, code = monotonic(), "OK"
        _log.log(v_level(4), "Calling CSI driver", extra={"driver": self._driver.name, "method": method})
        try:
            return await self._connection.call(_methods()[method], request)
        except RpcError as error:
            code = error.code
            raise
        finally:
            duration = monotonic() - started
            _DURATIONS.observe(duration, self._driver.name, f"/csi.v1.Node/{method}", code, self._migrated)

    async def has(self, capability: int) -> bool:
        """Return whether the driver has the node capability with this number.

        :raises RpcError: the driver cannot be queried.
        """
        if self._driver.capabilities is None:
            response = await self.call("NodeGetCapabilities")
            found = (each.rpc.type for each in response.capabilities if each.HasField("rpc"))
            self._driver.capabilities = frozenset(found)
        return capability in self._driver.capabilities

    async def info(self) -> NodeInfo:
        """Return the driver's description of this node.

        :raises RpcError: the call failed.
        """
        response = await self.call("NodeGetInfo")
        topology = dict(response.accessible_topology.segments)
        return NodeInfo(response.node_id, response.max_volumes_per_node, topology)


class Drivers:
    """The registered drivers by name.

    :param changed: called after each change.
    """

    def __init__(self, changed: Callable[[], None] = lambda: None) -> None:
        self._drivers: dict[str, Driver] = {}
        self.changed = changed

    def __iter__(self) -> Any:
        return iter(list(self._drivers.values()))

    def find(self, name: str) -> Driver | None:
        return self._drivers.get(name)

    def get(self, name: str, attempt: str) -> Driver:
        """Return a driver.

        :param attempt: start of the error message.
        :raises TransientVolumeError: the driver is not registered.
        """
        driver = self._drivers.get(name)
        if driver is None:
            message = f"driver name {name} not found in the list of registered CSI drivers"
            raise TransientVolumeError(f"{attempt}: {message}")
        return driver

    def add(self, driver: Driver) -> None:
        self._drivers[driver.name] = driver
        self.changed()

    def remove(self, name: str, endpoint: str = "") -> None:
        """Remove a driver, with *endpoint* only if it is registered with this endpoint."""
        driver = self._drivers.get(name)
        if driver is not None and endpoint in ("", driver.endpoint):
            del self._drivers[name]
            self.changed()


def volume_error(error: RpcError, attempt: str = "") -> VolumeError:
    """Return the error of a volume for a failed call: uncertain if the driver may have executed it.

    :param attempt: start of the message; empty for the error only.
    """
    text = f"{attempt}: {error}" if attempt else str(error)
    if error.code in _UNCERTAIN or error.local:
        return UncertainVolumeError(text)
    return VolumeError(text)
