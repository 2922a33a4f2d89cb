"""gRPC channel to a runtime's socket, opened by the first call."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping
from time import monotonic
from types import MappingProxyType
from typing import Any, NamedTuple

import grpc.aio
from google.protobuf import message_factory
from google.protobuf.message import DecodeError

from nodeagent.base import tracing
from nodeagent.base.criproto import api_pb2, changes, content
from nodeagent.base.metrics import Counter, Histogram, exponential
from nodeagent.errors import RuntimeFailure
from nodeagent_plugins.cri import errors
from nodeagent_plugins.cri.failure_log import log_failure

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
LOOKAHEAD_BYTES = 1024 * 1024
RECONNECT_MS = (100, 3000)
FINISH_SECONDS, CLOSE_SECONDS = 5.0, 1.0
INVALID_RESPONSE = "the runtime returned an invalid response"
OPTIONS = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.initial_reconnect_backoff_ms", RECONNECT_MS[0]),
    ("grpc.min_reconnect_backoff_ms", RECONNECT_MS[0]),
    ("grpc.max_reconnect_backoff_ms", RECONNECT_MS[1]),
    ("grpc.default_authority", "localhost"),  # Some servers reject the path of a socket.
    ("grpc.enable_http_proxy", 0),
    # gRPC would send a ping for each response to probe the bandwidth, for which its threads use CPU time.
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", LOOKAHEAD_BYTES),
    ("grpc.enable_retries", 0),  # The callers decide what is retried.
)


OPERATIONS = Counter(
    "runtime_operations_total", "Cumulative number of runtime operations by operation type.", ("operation_type",)
)
FAILURES = Counter(
    "runtime_operations_errors_total",
    "Cumulative number of runtime operation errors by operation type.",
    ("operation_type",),
)
DURATIONS = Histogram(
    "runtime_operations_duration_seconds",
    "Duration in seconds of runtime operations. Broken down by operation type.",
    ("operation_type",),
    bounds=exponential(0.005, 2.5, 14),
)


class Method(NamedTuple):
    """A gRPC method of the runtime or image service."""

    operation: str
    """The name in metrics, such as ``run_podsandbox``."""
    path: str
    response: Any
    """Message class of the response."""


class Connection:
    """Calls the runtime that listens on *endpoint*.

    While the runtime is unavailable, calls fail immediately and the channel reconnects automatically, after 100 ms at
    first and at least every 3 s.

    :param endpoint: ``unix:///path``.
    :param timeout_seconds: timeout of a call that sets none (spec: config.runtimeRequestTimeout).
    """

    def __init__(self, endpoint: str, timeout_seconds: float) -> None:
        self.endpoint, self.timeout_seconds = endpoint, timeout_seconds
        self._channel: grpc.aio.Channel | None = None
        self._calls: dict[str, Any] = {}
        self._left: set[asyncio.Task[None]] = set()
        """Calls whose callers were cancelled."""

    async def call(
        self,
        name: str,
        request: Any,
        attempt: str,
        timeout_seconds: float | None = 0,
        *metadata: tuple[str, str],
    ) -> Any:
        """Send *request* as the call *name* and return the response.

        :param attempt: description of the call for error texts, such as ``stop container 4f2a``.
        :param timeout_seconds: timeout of the call; 0 selects that of the connection, ``None`` disables it.
        :param metadata: gRPC metadata to send with the call.
        :raises RuntimeFailure: the call failed.
        """
        bound = self.timeout_seconds if timeout_seconds == 0 else timeout_seconds
        operation, started = METHODS[name].operation, monotonic()
        OPERATIONS.inc(operation)
        try:
            with tracing.span(METHODS[name].path[1:], lambda: _attributes(name), kind="client"):
                response = await self._method(name)(request, timeout=bound, metadata=_metadata(*metadata))
                return METHODS[name].response.FromString(response)
        except DecodeError as error:
            FAILURES.inc(operation)
            raise log_failure(name, request, RuntimeFailure(f"{attempt}: {INVALID_RESPONSE}")) from error
        except grpc.aio.AioRpcError as error:
            FAILURES.inc(operation)
            # A variable for the new error would keep this frame, and with it the channel, in a reference cycle.
            raise log_failure(name, request, errors.translate(error, attempt)) from error
        finally:
            DURATIONS.observe(monotonic() - started, operation)

    async def finish(self, name: str, request: Any, attempt: str, timeout_seconds: float | None = 0) -> Any:
        """Send *request* as :meth:`call` does; when cancelled, wait up to 5 s for the call to complete.

        A runtime that is interrupted while it starts a process can lose track of that process.

        :raises RuntimeFailure: the call failed.
        """
        work = asyncio.create_task(self.call(name, request, attempt, timeout_seconds), name=f"cri/{name}")
        try:
            await asyncio.wait({work})
        except asyncio.CancelledError:
            await asyncio.wait({work}, timeout=FINISH_SECONDS)
            raise
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)  # After a cancellation the failure is irrelevant.
        return work.result()

    async def leave(self, name: str, request: Any, attempt: str, timeout_seconds: float | None = 0) -> Any:
        """Send *request* as :meth:`call` does; when cancelled, interrupt the runtime only after 5 s, in the background.

        If containerd is interrupted while it executes a command, its shim can wait half a minute for the command's
        output to be opened, and the container cannot be stopped in that time.

        :raises RuntimeFailure: the call failed.
        """
        work = asyncio.create_task(self.call(name, request, attempt, timeout_seconds), name=f"cri/{name}")
        try:
            await asyncio.wait({work})
        except asyncio.CancelledError:
            end = asyncio.create_task(_end(work), name=f"cri/{name}/end")
            self._left.add(end)
            end.add_done_callback(self._left.discard)
            raise
        return work.result()

    async def stream(self, name: str, request: Any, attempt: str) -> AsyncGenerator[Any, None]:
        """Send *request* as the call *name* and yield each response as it arrives; has no timeout.

        :raises RuntimeFailure: the call failed.
        """
        call = self._method(name, stream=True)(request, metadata=_metadata())
        OPERATIONS.inc(METHODS[name].operation)
        try:
            async for response in call:
                yield METHODS[name].response.FromString(response)
        except DecodeError as error:
            FAILURES.inc(METHODS[name].operation)
            raise RuntimeFailure(f"{attempt}: {INVALID_RESPONSE}") from error
        except grpc.aio.AioRpcError as error:
            FAILURES.inc(METHODS[name].operation)
            raise errors.translate(error, attempt) from error
        finally:
            call.cancel()

    async def close(self) -> None:
        """Close the channel, after up to a second in which cancelled calls complete; a later call opens a new one."""
        if left := list(self._left):
            await asyncio.wait(left, timeout=CLOSE_SECONDS)
            for end in left:
                end.cancel()
            await asyncio.gather(*left, return_exceptions=True)
        channel, self._channel = self._channel, None
        self._calls.clear()
        if channel is not None:
            await channel.close(None)

    def _method(self, name: str, *, stream: bool = False) -> Any:
        known = self._calls.get(name)
        if known is None:
            if self._channel is None:
                self._channel = grpc.aio.insecure_channel(self.endpoint, options=OPTIONS)
            kind = self._channel.unary_stream if stream else self._channel.unary_unary
            # Responses are decoded by the callers: gRPC would return None for one that it fails to decode.
            known = self._calls[name] = kind(
                METHODS[name].path, request_serializer=_serialize, response_deserializer=bytes
            )
        return known


async def _end(work: asyncio.Task[Any]) -> None:
    """Cancel *work* after 5 s, or when cancelled."""
    try:
        await asyncio.wait({work}, timeout=FINISH_SECONDS)
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


def _metadata(*more: tuple[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the trace context of the current span and *more* as metadata."""
    return (*tracing.outgoing().items(), *more)


def _attributes(name: str) -> dict[str, str]:
    service, _, method = METHODS[name].path[1:].partition("/")
    return {"rpc.system": "grpc", "rpc.service": service, "rpc.method": method}


def _serialize(request: Any) -> bytes:
    encoded: bytes = request.SerializeToString()
    return encoded


def _operation(name: str) -> str:
    """Return the kubelet's name of a call in metrics."""
    words = re.sub("([a-z])([A-Z])", r"\1_\2", name).lower()
    return words.replace("pod_sandbox", "podsandbox").removesuffix("_resources")


def _methods() -> Mapping[str, Method]:
    """Return all calls of both services by name, and those of containerd's content and event services."""
    return MappingProxyType(
        {
            "ListStatuses": Method("list_statuses", content.LIST_STATUSES, content.ListStatusesResponse),
            "Subscribe": Method("subscribe", changes.SUBSCRIBE, changes.Envelope),
        }
        | {
            method.name: Method(
                _operation(method.name),
                f"/{service.full_name}/{method.name}",
                message_factory.GetMessageClass(method.output_type),
            )
            for service in api_pb2.DESCRIPTOR.services_by_name.values()
            for method in service.methods
        }
    )


METHODS = _methods()
