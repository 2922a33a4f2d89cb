"""One gRPC channel to a runtime's socket, made at the first call."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping
from time import monotonic
from types import MappingProxyType
from typing import Any, NamedTuple

import grpc.aio
from google.protobuf import message_factory

from nodeagent.base import tracing
from nodeagent.base.criproto import api_pb2, content
from nodeagent.base.metrics import Counter, Histogram, exponential
from nodeagent_plugins.cri import errors

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
RECONNECT_MS = (100, 3000)
FINISH_SECONDS = 5.0
OPTIONS = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.initial_reconnect_backoff_ms", RECONNECT_MS[0]),
    ("grpc.min_reconnect_backoff_ms", RECONNECT_MS[0]),
    ("grpc.max_reconnect_backoff_ms", RECONNECT_MS[1]),
    ("grpc.default_authority", "localhost"),  # a socket's path is none that every server accepts
    ("grpc.enable_http_proxy", 0),
    ("grpc.enable_retries", 0),  # what is tried again is decided above
)


OPERATIONS = Counter("runtime_operations_total", "Calls of the container runtime, by operation.", ("operation_type",))
FAILURES = Counter(
    "runtime_operations_errors_total",
    "Calls of the container runtime that failed, by operation.",
    ("operation_type",),
)
DURATIONS = Histogram(
    "runtime_operations_duration_seconds",
    "How long calls of the container runtime took.",
    ("operation_type",),
    bounds=exponential(0.005, 2.5, 14),
)


class Method(NamedTuple):
    """How one call travels."""

    operation: str
    """Its name in metrics: ``run_podsandbox``."""
    path: str
    answer: Any
    """Message class of the answer."""


class Connection:
    """Calls the runtime that listens on *endpoint*.

    While the runtime is away, a call fails at once and the channel reconnects by itself, after 100 ms at first and
    at most every 3 s.

    :param endpoint: ``unix:///path``.
    :param timeout_seconds: bound of a call that sets none of its own (spec: config.runtimeRequestTimeout).
    """

    def __init__(self, endpoint: str, timeout_seconds: float) -> None:
        self.endpoint, self.timeout_seconds = endpoint, timeout_seconds
        self._channel: grpc.aio.Channel | None = None
        self._calls: dict[str, Any] = {}

    async def call(
        self,
        name: str,
        request: Any,
        attempt: str,
        timeout_seconds: float | None = 0,
        *metadata: tuple[str, str],
    ) -> Any:
        """Send *request* as the call *name* and return the answer.

        :param attempt: what this call tries, for the text of errors: ``stop container 4f2a``.
        :param timeout_seconds: its bound; 0 takes the connection's, ``None`` is no bound.
        :param metadata: goes along with the call.
        :raises RuntimeFailure: translated from what gRPC says.
        """
        bound = self.timeout_seconds if timeout_seconds == 0 else timeout_seconds
        operation, began = METHODS[name].operation, monotonic()
        OPERATIONS.inc(operation)
        try:
            with tracing.span(METHODS[name].path[1:], lambda: _attributes(name), kind="client"):
                return await self._method(name)(request, timeout=bound, metadata=_metadata(*metadata))
        except grpc.aio.AioRpcError as error:
            FAILURES.inc(operation)
            raise errors.translate(error, attempt) from error
        finally:
            DURATIONS.observe(monotonic() - began, operation)

    async def finish(self, name: str, request: Any, attempt: str, timeout_seconds: float | None = 0) -> Any:
        """Send *request* as :meth:`call` does, and let it come to its end for up to 5 s more when cancelled.

        A runtime whose work is cut off in the middle of a start can keep a process that it does not know any more.

        :raises RuntimeFailure: translated from what gRPC says.
        """
        work = asyncio.create_task(self.call(name, request, attempt, timeout_seconds), name=f"cri/{name}")
        try:
            await asyncio.wait({work})
        except asyncio.CancelledError:
            await asyncio.wait({work}, timeout=FINISH_SECONDS)
            raise
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)  # its failure is nobody's who has left
        return work.result()

    async def stream(self, name: str, request: Any, attempt: str) -> AsyncGenerator[Any, None]:
        """Send *request* as the call *name* and give each answer as it comes; has no bound.

        :raises RuntimeFailure: translated from what gRPC says.
        """
        call = self._method(name, stream=True)(request, metadata=_metadata())
        OPERATIONS.inc(METHODS[name].operation)
        try:
            async for answer in call:
                yield answer
        except grpc.aio.AioRpcError as error:
            FAILURES.inc(METHODS[name].operation)
            raise errors.translate(error, attempt) from error
        finally:
            call.cancel()

    async def close(self) -> None:
        """Close the channel; a later call would open a new one."""
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
            method = METHODS[name]
            known = self._calls[name] = kind(
                method.path, request_serializer=_serialize, response_deserializer=method.answer.FromString
            )
        return known


def _metadata(*more: tuple[str, str]) -> tuple[tuple[str, str], ...] | None:
    """Return what tells the runtime of the span around the call, and *more*."""
    return (*tracing.outgoing().items(), *more) or None


def _attributes(name: str) -> dict[str, str]:
    service, _, method = METHODS[name].path[1:].partition("/")
    return {"rpc.system": "grpc", "rpc.service": service, "rpc.method": method}


def _serialize(request: Any) -> bytes:
    encoded: bytes = request.SerializeToString()
    return encoded


def _operation(name: str) -> str:
    """Return the name of a call as the field's metrics have it."""
    words = re.sub("([a-z])([A-Z])", r"\1_\2", name).lower()
    return words.replace("pod_sandbox", "podsandbox").removesuffix("_resources")


def _methods() -> Mapping[str, Method]:
    """Return all calls of both services by name, as their definition has them, and the one beside them."""
    return MappingProxyType(
        {"ListStatuses": Method("list_statuses", content.LIST_STATUSES, content.ListStatusesResponse)}
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
