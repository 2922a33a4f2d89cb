"""What a call may end with, besides an answer."""

from __future__ import annotations

from grpc import StatusCode


class CallError(Exception):
    """A call failed; the caller gets *code* and the text."""

    code = StatusCode.UNKNOWN


class NotKnown(CallError):
    """There is no such sandbox, container or image."""

    code = StatusCode.NOT_FOUND


class Refused(CallError):
    """What is asked for makes no sense, or not in this state."""

    code = StatusCode.FAILED_PRECONDITION


class BadRequest(CallError):
    """The request itself is wrong."""

    code = StatusCode.INVALID_ARGUMENT


class Taken(CallError):
    """The name is in use."""

    code = StatusCode.ALREADY_EXISTS


class NotOffered(CallError):
    """This runtime does not do that."""

    code = StatusCode.UNIMPLEMENTED


class TooSlow(CallError):
    """The time that the caller gave is over."""

    code = StatusCode.DEADLINE_EXCEEDED
