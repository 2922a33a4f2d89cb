"""Simulated gRPC channel from the agent to the container runtime.

A call reaches the runtime after a latency and is then executed to its end, even if the agent times out, cancels the
call or crashes. The response takes a latency, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextvars import Context
from typing import Any

import grpc
import grpc.aio

from nodeagent.base.simulation.latency import Latency
from nodeagent.base.simulation.loop import SimulatedLoop
from nodeagent.simulation.runtime import SimulatedRuntime
from nodeagent.simulation.runtime_objects import RuntimeProblem

_CODES = {
    "not found": grpc.StatusCode.NOT_FOUND,
    "unknown": grpc.StatusCode.UNKNOWN,
    "unavailable": grpc.StatusCode.UNAVAILABLE,
    "unimplemented": grpc.StatusCode.UNIMPLEMENTED,
    "deadline exceeded": grpc.StatusCode.DEADLINE_EXCEEDED,
    "resource exhausted": grpc.StatusCode.RESOURCE_EXHAUSTED,
}


class SimulatedChannel:
    """Channel to *runtime*; implements what the CRI client uses of ``grpc.aio.Channel``."""

    def __init__(self, loop: SimulatedLoop, runtime: SimulatedRuntime, latency: Latency) -> None:
        self._loop, self._runtime, self._latency = loop, runtime, latency

    def unary_unary(
        self, path: str, request_serializer: Callable[[Any], bytes], response_deserializer: Callable[[bytes], Any]
    ) -> Callable[..., _Call]:
        name = path.rpartition("/")[2]

        def call(request: Any, *, timeout: float | None = None, metadata: Any = None) -> _Call:
            return _Call(self._exchange(name, request, timeout))

        return call

    def unary_stream(
        self, path: str, request_serializer: Callable[[Any], bytes], response_deserializer: Callable[[bytes], Any]
    ) -> Callable[..., _Stream]:
        name = path.rpartition("/")[2]

        def call(request: Any, *, timeout: float | None = None, metadata: Any = None) -> _Stream:
            return _Stream(self._runtime, name)

        return call

    async def close(self, grace: float | None = None) -> None:
        pass

    async def _exchange(self, name: str, request: Any, timeout: float | None) -> bytes:
        loop, runtime = self._loop, self._runtime
        reply = loop.create_future()
        runtime.observer.requested(name, request)

        def respond(result: bytes | RuntimeProblem) -> None:
            loop.call_later(self._latency(), _settle, reply, result, context=Context())

        def arrive() -> None:
            task = loop.create_task(runtime.handle(name, request), name=f"runtime/{name}", context=Context())
            task.add_done_callback(lambda done: respond(done.result()), context=Context())

        if runtime.down:
            loop.call_later(self._latency(), _settle, reply, RuntimeProblem("unavailable", "connect: ECONNREFUSED"))
        else:
            runtime.accept(name, request)
            loop.call_later(self._latency(), arrive, context=Context())
        lost = runtime.when_lost(reply)
        try:
            async with asyncio.timeout(timeout):
                result = await reply
        except TimeoutError as error:
            raise _error(RuntimeProblem("deadline exceeded", "Deadline Exceeded")) from error
        finally:
            lost()
        if isinstance(result, RuntimeProblem):
            raise _error(result)
        return bytes(result)


class _Call:
    """A call that can be awaited."""

    def __init__(self, work: Any) -> None:
        self._work = work

    def __await__(self) -> Iterator[Any]:
        return iter(self._work.__await__())


class _Stream:
    """A stream of responses."""

    def __init__(self, runtime: SimulatedRuntime, name: str) -> None:
        self._runtime, self._name = runtime, name

    def cancel(self) -> None:
        pass

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for message in self._runtime.stream(self._name):
                yield message
        except RuntimeProblem as problem:
            raise _error(problem) from problem


def _settle(reply: asyncio.Future[Any], result: Any) -> None:
    if not reply.done():
        reply.set_result(result)


def _error(problem: RuntimeProblem) -> grpc.aio.AioRpcError:
    empty = grpc.aio.Metadata()
    return grpc.aio.AioRpcError(_CODES[problem.code], empty, empty, problem.text, "")
