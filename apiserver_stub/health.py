"""``/healthz``, ``/livez``, ``/readyz``: named checks, with ``?verbose`` and ``?exclude``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from apiserver_stub.reply import Reply

if TYPE_CHECKING:
    from apiserver_stub.app import ApiServer
    from apiserver_stub.request import Request

_TEXT = "text/plain; charset=utf-8"
_HEADERS = {"X-Content-Type-Options": "nosniff"}
Check = tuple[str, Callable[["ApiServer"], bool]]

_LIVE: tuple[Check, ...] = (
    ("ping", lambda server: True),
    ("etcd", lambda server: server.store.healthy),
    ("poststarthook/start-system-namespaces-controller", lambda server: server.ready),
)
_READY: tuple[Check, ...] = (*_LIVE, ("shutdown", lambda server: not server.leaving))
_LIVE_IN_GRACE: tuple[Check, ...] = (*_LIVE[:-1], (_LIVE[-1][0], lambda server: server.ready or server.in_livez_grace))
_PATHS = {"/healthz": _LIVE, "/livez": _LIVE_IN_GRACE, "/readyz": _READY}


def answer(server: ApiServer, request: Request) -> Reply | None:
    """Answer a health path, ``None`` for any other."""
    root, _, single = request.info.path[1:].partition("/")
    checks = _PATHS.get("/" + root)
    if checks is None:
        return None
    if single:
        found = next((check for name, check in checks if name == single), None)
        if found is None:
            return None
        return _reply(200, "ok") if found(server) else _reply(500, f"internal server error: {single}")
    excluded = request.query.all("exclude")
    lines, failed = [], False
    for name, check in checks:
        if name in excluded:
            lines.append(f"[+]{name} excluded: ok")
        elif check(server):
            lines.append(f"[+]{name} ok")
        else:
            failed = True
            lines.append(f"[-]{name} failed: reason withheld")
    known = {name for name, _ in checks}
    if unknown := [name for name in excluded if name not in known]:
        names = ", ".join(f'"{name}"' for name in unknown)
        lines.append(f"warn: some health checks cannot be excluded: no matches for {names}")
    if not failed and "verbose" not in request.query:
        return _reply(200, "ok")
    lines.append(f"{root} check {'failed' if failed else 'passed'}")
    return _reply(500 if failed else 200, "\n".join(lines) + "\n")


def _reply(code: int, text: str) -> Reply:
    return Reply(code, body=text.encode(), content_type=_TEXT, headers=_HEADERS)
