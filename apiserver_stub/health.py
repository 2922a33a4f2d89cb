"""``/healthz``, ``/livez``, ``/readyz``: named checks, with ``?verbose`` and ``?exclude``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from apiserver_stub.reply import Reply
from apiserver_stub.store.polls import READINESS

if TYPE_CHECKING:
    from apiserver_stub.app import ApiServer
    from apiserver_stub.request import Request

_TEXT = "text/plain; charset=utf-8"
_HEADERS = {"X-Content-Type-Options": "nosniff"}
_ROOTS = ("healthz", "livez", "readyz")
Check = Callable[[], Awaitable[str]]
"""Returns what is wrong, empty when nothing is."""


async def answer(server: ApiServer, request: Request) -> Reply | None:
    """Answer a health path, ``None`` for any other."""
    root, _, single = request.info.path[1:].partition("/")
    if root not in _ROOTS:
        return None
    checks = _checks(server, root)
    if single:
        if single not in checks:
            return None
        problem = await checks[single]()
        return _reply(500, f"internal server error: {problem}") if problem else _reply(200, "ok")
    excluded = request.query.all("exclude")
    lines, failed = [], False
    for name, check in checks.items():
        if name in excluded:
            lines.append(f"[+]{name} excluded: ok")
        elif not await check():
            lines.append(f"[+]{name} ok")
        else:
            failed = True
            lines.append(f"[-]{name} failed: reason withheld")
    if unknown := [name for name in excluded if name not in checks]:
        names = ", ".join(f'"{name}"' for name in unknown)
        lines.append(f"warn: some health checks cannot be excluded: no matches for {names}")
    if not failed and "verbose" not in request.query:
        return _reply(200, "ok")
    lines.append(f"{root} check {'failed' if failed else 'passed'}")
    return _reply(500 if failed else 200, "\n".join(lines) + "\n")


def _checks(server: ApiServer, root: str) -> dict[str, Check]:
    """Return the checks of a path, in the order they are told."""
    ready, started = root == "readyz", server.ready or (root == "livez" and server.in_livez_grace)
    found = {"ping": _fixed("")}
    found |= {name: check.problem for name, check in server.storage_checks.items() if ready or name != READINESS}
    found["poststarthook/start-system-namespaces-controller"] = _fixed("" if started else "not finished")
    if ready:
        found["shutdown"] = _fixed("process is shutting down" if server.leaving else "")
    return found


def _fixed(problem: str) -> Check:
    async def tell() -> str:
        return problem

    return tell


def _reply(code: int, text: str) -> Reply:
    return Reply(code, body=text.encode(), content_type=_TEXT, headers=_HEADERS)
