"""``/debug/pprof/`` and ``/debug/flags/v`` (spec: opt.profiling)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver_stub.apimachinery.status import ApiError, bad_request
from apiserver_stub.verbs.responses import Reply
from nodeagent.base import logging
from nodeagent.base.profiling.profiles import PROFILES, InvalidParameter, Profiles
from nodeagent.base.profiling.sampling import Busy

if TYPE_CHECKING:
    from apiserver_stub.apimachinery.request import Request

ROOT = "/debug/pprof/"
VERBOSITY = "/debug/flags/v"
_TEXT = "text/plain; charset=utf-8"
_HEADERS = {"X-Content-Type-Options": "nosniff"}


class Profiling:
    """Profiles of the process, and the log verbosity."""

    read_only = False

    def __init__(self, profiles: Profiles) -> None:
        self._profiles = profiles

    async def respond(self, request: Request) -> Reply | None:
        """Return the response to a path of the profiler, ``None`` for any other.

        :raises ApiError: 400, a parameter is invalid; 409, a profile of the same kind is in progress.
        """
        path = request.info.path
        if path == VERBOSITY:
            return _set_verbosity(request)
        if not (path + "/").startswith(ROOT):
            return None
        name = path.removeprefix(ROOT.rstrip("/")).strip("/")
        if not name:
            import html  # Deferred: its table of names is large.

            items = "".join(
                f'<li><a href="{label}">{label}</a>: {html.escape(text)}</li>' for label, text in PROFILES.items()
            )
            page = f"<html><head><title>{ROOT}</title></head><body><ul>{items}</ul></body></html>"
            return Reply(200, body=page.encode(), content_type="text/html; charset=utf-8", headers=_HEADERS)
        query = {label: request.query.get(label) for label in ("seconds", "debug", "gc")}
        try:
            content = await self._profiles.take(name, query)
        except InvalidParameter as error:
            raise bad_request(str(error)) from error
        except Busy as error:
            raise ApiError(409, "Conflict", str(error), {}) from error
        if content is None:
            return None
        return Reply(200, body=content.body, content_type=content.content_type, headers=content.headers)


def _set_verbosity(request: Request) -> Reply:
    """Change the log verbosity (``PUT /debug/flags/v``)."""
    if request.method != "PUT":
        return Reply(406, body=b"unsupported http method", content_type=_TEXT, headers=_HEADERS)
    logs = logging.active()
    text = request.body.decode("ascii", "replace").strip()
    try:
        if logs is not None:
            logs.set_verbosity(int(text))
    except (ValueError, logging.LoggingError) as error:
        return Reply(400, body=f'"{text}": {error}'.encode(), content_type=_TEXT, headers=_HEADERS)
    return Reply(200, body=f"successfully set klog.logging.verbosity to {text}".encode(), content_type=_TEXT)
