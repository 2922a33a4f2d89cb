"""What a call may end with, besides an answer."""

from __future__ import annotations

from grpc import StatusCode


class CallError(Exception):
    """A call failed; the caller gets *code* and the text."""

    code = StatusCode.UNKNOWN


class NotFound(CallError):
    """There is no such sandbox, container or image."""

    code = StatusCode.NOT_FOUND


class FailedPrecondition(CallError):
    """What is asked for makes no sense, or not in this state."""

    code = StatusCode.FAILED_PRECONDITION


class InvalidArgument(CallError):
    """The request itself is wrong."""

    code = StatusCode.INVALID_ARGUMENT


class AlreadyExists(CallError):
    """The name is in use."""

    code = StatusCode.ALREADY_EXISTS


class Unimplemented(CallError):
    """This runtime does not do that."""

    code = StatusCode.UNIMPLEMENTED


class DeadlineExceeded(CallError):
    """The time that the caller gave is over."""

    code = StatusCode.DEADLINE_EXCEEDED
