"""Translate gRPC errors into the agent's error classes."""

from __future__ import annotations

import grpc

from nodeagent.errors import NotFound, RuntimeFailure, RuntimeTimeout, RuntimeUnavailable

MAX_TEXT = 4096


def translate(error: grpc.aio.AioRpcError, attempt: str) -> RuntimeFailure:
    """Return the agent's error for *error*; its text starts with *attempt*, such as ``stop container 4f2a``."""
    text = f"{attempt}: {details_of(error)}"
    if error.code() is grpc.StatusCode.UNAVAILABLE:
        return RuntimeUnavailable(text)
    if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
        return RuntimeTimeout(text)
    if error.code() is grpc.StatusCode.NOT_FOUND:
        return NotFound(text)
    if error.code() is grpc.StatusCode.UNIMPLEMENTED:
        return UnimplementedError(text)
    return RuntimeFailure(text)


def details_of(error: grpc.aio.AioRpcError) -> str:
    """Return the runtime's error message, truncated to a length that fits a pod status."""
    return (error.details() or error.code().name)[:MAX_TEXT]


class UnimplementedError(RuntimeFailure):
    """The runtime does not implement the call."""

    reason = "Unimplemented"
