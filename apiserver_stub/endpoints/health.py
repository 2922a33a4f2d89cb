"""``/healthz``, ``/livez``, ``/readyz``: named checks, with ``?verbose`` and ``?exclude``; and how they went so far."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from apiserver_stub.storage.monitor import READINESS
from apiserver_stub.telemetry.exposition import Choice, Page
from apiserver_stub.verbs.responses import Reply
from nodeagent.base.logging import v_level

if TYPE_CHECKING:
    from apiserver_stub.apimachinery.request import Request
    from apiserver_stub.server.state import ApiServer

_log = logging.getLogger(__name__)

OUTCOMES_PATH = "/metrics/slis"
_TEXT = "text/plain; charset=utf-8"
_HEADERS = {"X-Content-Type-Options": "nosniff"}
_ROOTS = ("healthz", "livez", "readyz")
_REASON_VERBOSITY = 2
Check = Callable[[], Awaitable[str]]
"""Returns what is wrong, empty when nothing is."""


class Outcomes:
    """How checks went when one of the three paths was asked (spec: gate.ComponentSLIs)."""

    def __init__(self) -> None:
        self._passes: dict[tuple[str, str], bool] = {}
        self._counts: Counter[tuple[str, str, str]] = Counter()

    def note(self, check: str, path: str, problem: str) -> None:
        """Count one check, made for *path*."""
        self._passes[check, path] = not problem
        self._counts[check, path, "error" if problem else "success"] += 1

    def render(self, choice: Choice) -> tuple[bytes, str]:
        """Return the page of :data:`OUTCOMES_PATH` and its media type."""
        page = Page(choice)
        text = "Whether a health check passed when it was last made."
        page.gauge("kubernetes_healthcheck", text, ("name", "type"), self._passes.items())
        text = "Health checks that were made, by outcome."
        page.counter("kubernetes_healthchecks_total", text, ("name", "type", "status"), self._counts.items())
        return page.text()


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
            continue
        problem = await check()
        server.health.note(name, root, problem)
        if problem:
            failed = True
            lines.append(f"[-]{name} failed: reason withheld")
            _log.log(
                v_level(_REASON_VERBOSITY), "Health check failed", extra={"check": name, "path": root, "err": problem}
            )
        else:
            lines.append(f"[+]{name} ok")
    if unknown := sorted({name for name in excluded if name not in checks}):
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
