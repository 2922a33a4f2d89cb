"""Responses to the errors of a request; some are plain text in place of a Status."""

from __future__ import annotations

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.media import PLAIN, Format
from apiserver_stub.apimachinery.status import ApiError, bad_request, internal, unavailable
from apiserver_stub.storage import StoreRejected, StoreUnavailable
from apiserver_stub.transport.rendered import Rendered
from apiserver_stub.verbs.responses import render_error

_NOSNIFF = {"X-Content-Type-Options": "nosniff"}
_TEXT = "text/plain; charset=utf-8"
_EXEMPT_WHILE_DRAINING = ("/healthz", "/livez", "/metrics", "/readyz")
_TYPE = ("kind", "apiVersion")


class AuthorizationFailed(Exception):
    """No authorizer could decide; the text states the reason."""


class PlainError(ApiError):
    """Error whose response is plain text."""


class PlainNotFound(PlainError):
    """A path without an endpoint; the response is text, as other clients than those of the API may request it."""

    def __init__(self) -> None:
        super().__init__(404, "NotFound", "404 page not found")


HANDLED = (AuthorizationFailed, ApiError, StoreUnavailable, StoreRejected, RecursionError)
"""Errors with a response; any other exception is a bug."""


def response_to(error: Exception, target: str, format_: Format) -> Rendered:
    """Return the response to the request for *target* that failed with *error*, one of :data:`HANDLED`."""
    match error:
        case AuthorizationFailed():
            text = f'Internal Server Error: "{target}": {error}\n'
            return Rendered(500, _TEXT, [text.encode()], _NOSNIFF)
        case PlainError():
            return Rendered(error.code, _TEXT, [error.message.encode() + b"\n"], _NOSNIFF)
        case ApiError():
            return render_error(error, format_)
        case StoreUnavailable():
            return render_error(unavailable(str(error)), format_)
        case RecursionError():  # Only bodies are deep.
            return render_error(bad_request("json: exceeded max depth"), format_)
    return render_error(internal(str(error)), format_)


def timed_out() -> PlainError:
    """Return the response to a request that timed out: a Status, sent as text."""
    message = "Timeout: request did not complete within the allotted timeout"
    status = ApiError(504, "Timeout", message, {}).body()
    return PlainError(504, "Timeout", objects.encode({key: status[key] for key in status if key not in _TYPE}).decode())


def too_many(retry_seconds: int = 1) -> Rendered:
    """Return the response to a throttled request, which the client may retry after *retry_seconds*."""
    headers = {**_NOSNIFF, "Retry-After": str(retry_seconds)}
    return Rendered(429, _TEXT, [b"Too many requests, please try again later.\n"], headers)


def while_draining(path: str, *, retry_later: bool) -> Rendered | None:
    """Return the response to a new request while the server drains, ``None`` for health checks.

    With *retry_later* the client may retry (spec: opt.shutdown-send-retry-after).
    """
    if not retry_later:
        return render_error(unavailable("apiserver is shutting down"), PLAIN)
    if path.startswith(_EXEMPT_WHILE_DRAINING):
        return None
    text = b"The apiserver is shutting down, please try again later.\n"
    return Rendered(429, _TEXT, [text], {**_NOSNIFF, "Retry-After": "5", "Connection": "close"})
