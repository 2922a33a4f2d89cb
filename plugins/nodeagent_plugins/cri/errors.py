"""From gRPC's errors to ours."""

from __future__ import annotations

import grpc

from nodeagent.errors import NotFound, RuntimeFailure, RuntimeUnavailable

MAX_TEXT = 4096


def translate(error: grpc.aio.AioRpcError, attempt: str) -> RuntimeFailure:
    """Return *error* as one of ours; its text starts with *attempt*, such as ``stop container 4f2a``."""
    text = f"{attempt}: {details_of(error)}"
    if error.code() is grpc.StatusCode.UNAVAILABLE:
        return RuntimeUnavailable(text)
    if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
        return DeadlineError(text)
    if error.code() is grpc.StatusCode.NOT_FOUND:
        return NotFound(text)
    if error.code() is grpc.StatusCode.UNIMPLEMENTED:
        return UnimplementedError(text)
    return RuntimeFailure(text)


def details_of(error: grpc.aio.AioRpcError) -> str:
    """Return what the runtime says, cut to a length that fits a status."""
    return (error.details() or error.code().name)[:MAX_TEXT]


class DeadlineError(RuntimeUnavailable):
    """The call's time is over, by the runtime's clock or by ours."""


class UnimplementedError(RuntimeFailure):
    """The runtime has no such call."""

    reason = "Unimplemented"
