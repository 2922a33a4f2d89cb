"""Conversion of error responses to exceptions."""

from __future__ import annotations

import msgspec

from nodeagent.apiclient import wire
from nodeagent.apiclient.transport import Response
from nodeagent.errors import ApiConflict, ApiError, ApiGone, ApiNotFound, ApiUnavailable

_MAX_TEXT = 1024
_TOO_LARGE = "Too large resource version"
"""Part of the message of a 504 error for a resource version that the server does not have, such as after a restore."""
_TRANSIENT = frozenset({408, 429, 500, 502, 503, 504})
_KINDS: dict[int, type[ApiError]] = {
    404: ApiNotFound,
    409: ApiConflict,
    410: ApiGone,
    502: ApiUnavailable,
    503: ApiUnavailable,
    504: ApiUnavailable,
}


class Status(msgspec.Struct):
    """Fields of a Status object that describe the error."""

    message: str = ""
    reason: str = ""
    code: int = 0


def from_response(attempt: str, response: Response) -> ApiError:
    """Return the error for *response*; *attempt* describes the request."""
    try:
        status = wire.decode(response.body, wire.media_type_of(response.headers), Status)
    except ValueError:  # The page of a proxy, or plain text.
        status = Status(message=response.body[:_MAX_TEXT].decode(errors="replace").strip())
    return from_status(attempt, response.status, status.reason, status.message)


def from_status(attempt: str, code: int, reason: str, message: str) -> ApiError:
    """Return the error for a status with this code; long text is truncated."""
    text = message if len(message) <= _MAX_TEXT else message[:_MAX_TEXT] + "…"
    is_too_large = code == 504 and _TOO_LARGE in message
    kind = ApiGone if is_too_large else _KINDS.get(code, ApiError)
    return kind(
        f"{attempt}: server returned {code}{f' {reason}' if reason else ''}{f': {text}' if text else ''}",
        code=code,
        reason=reason or None,
        transient=code in _TRANSIENT and not is_too_large,
    )
