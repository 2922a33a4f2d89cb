"""Errors of CRI calls, by gRPC status code."""

from __future__ import annotations

from grpc import StatusCode


class CallError(Exception):
    """A call failed with the status *code* and a message."""

    code = StatusCode.UNKNOWN


class NotFound(CallError):
    """The sandbox, container or image does not exist."""

    code = StatusCode.NOT_FOUND


class FailedPrecondition(CallError):
    """The call is not supported, or not in the current state."""

    code = StatusCode.FAILED_PRECONDITION


class InvalidArgument(CallError):
    """The request is invalid."""

    code = StatusCode.INVALID_ARGUMENT


class AlreadyExists(CallError):
    """The name is in use."""

    code = StatusCode.ALREADY_EXISTS


class Unimplemented(CallError):
    """The runtime does not implement the call."""

    code = StatusCode.UNIMPLEMENTED


class DeadlineExceeded(CallError):
    """The timeout in the request has expired."""

    code = StatusCode.DEADLINE_EXCEEDED
