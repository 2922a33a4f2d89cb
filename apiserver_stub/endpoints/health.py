"""``/healthz``, ``/livez`` and ``/readyz``: named checks with ``?verbose`` and ``?exclude``, and their outcomes."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from apiserver_stub.storage.monitor import READINESS
from apiserver_stub.storage.monitor import Check as StorageCheck
from apiserver_stub.telemetry.exposition import Choice, Page
from apiserver_stub.verbs.responses import Reply
from nodeagent.base.logging import v_level

if TYPE_CHECKING:
    from apiserver_stub.apimachinery.request import Request
    from apiserver_stub.lifecycle import Lifecycle

_log = logging.getLogger(__name__)

_TEXT = "text/plain; charset=utf-8"
_HEADERS = {"X-Content-Type-Options": "nosniff"}
_ROOTS = ("healthz", "livez", "readyz")
_REASON_VERBOSITY = 2
Check = Callable[[], Awaitable[str]]
"""Returns the problem, empty if the check passes."""


class Outcomes:
    """Outcomes of the checks that requests ran (spec: gate.ComponentSLIs)."""

    def __init__(self) -> None:
        self._passes: dict[tuple[str, str], bool] = {}
        self._counts: Counter[tuple[str, str, str]] = Counter()

    def record(self, check: str, path: str, problem: str) -> None:
        """Count one check, made for *path*."""
        self._passes[check, path] = not problem
        self._counts[check, path, "error" if problem else "success"] += 1

    def render(self, choice: Choice) -> tuple[bytes, str]:
        """Return the page of the outcomes and its media type."""
        page = Page(choice)
        text = "This metric records the result of a single healthcheck."
        page.gauge("kubernetes_healthcheck", text, ("name", "type"), self._passes.items())
        text = "This metric records the results of all healthcheck."
        page.counter("kubernetes_healthchecks_total", text, ("name", "type", "status"), self._counts.items())
        return page.text()


class Health:
    """The health endpoints.

    :param storage_checks: checks of the storage backend by name.
    :param start_checks: checks by name that fail until a part of the start has finished.
    """

    read_only = False

    def __init__(
        self,
        lifecycle: Lifecycle,
        storage_checks: Mapping[str, StorageCheck],
        start_checks: Mapping[str, Check] = MappingProxyType({}),
    ) -> None:
        self._lifecycle, self._storage_checks, self._start_checks = lifecycle, storage_checks, start_checks
        self.outcomes = Outcomes()

    def paths(self) -> list[str]:
        """Return the paths of all checks."""
        return [path for root in _ROOTS for path in (f"/{root}", *(f"/{root}/{name}" for name in self._checks(root)))]

    async def respond(self, request: Request) -> Reply | None:
        """Return the outcome of the checks at a health path, ``None`` for other paths."""
        root, _, single = request.info.path[1:].partition("/")
        if root not in _ROOTS:
            return None
        checks = self._checks(root)
        if single:
            if single not in checks:
                return None
            problem = await checks[single]()
            return _reply(500, f"internal server error: {problem}") if problem else _reply(200, "ok")
        excluded = request.query.all("exclude")
        lines: list[str] = []
        failed: dict[str, str] = {}
        for name, check in checks.items():
            if name in excluded:
                lines.append(f"[+]{name} excluded: ok")
                continue
            problem = await check()
            self.outcomes.record(name, root, problem)
            if problem:
                failed[name] = problem
                lines.append(f"[-]{name} failed: reason withheld")
            else:
                lines.append(f"[+]{name} ok")
        if unknown := sorted({name for name in excluded if name not in checks}):
            names = ", ".join(f'"{name}"' for name in unknown)
            lines.append(f"warn: some health checks cannot be excluded: no matches for {names}")
        if failed:
            names, reasons = ",".join(failed), "; ".join(f"{name}: {problem}" for name, problem in failed.items())
            _log.log(v_level(_REASON_VERBOSITY), "%s check failed: %s", names, root, extra={"err": reasons})
        if not failed and "verbose" not in request.query:
            return _reply(200, "ok")
        lines.append(f"{root} check {'failed' if failed else 'passed'}")
        return _reply(500 if failed else 200, "\n".join(lines) + "\n")

    def _checks(self, root: str) -> dict[str, Check]:
        """Return the checks of a path, in the order of the response."""
        ready, started = root == "readyz", self._lifecycle.ready or (root == "livez" and self._lifecycle.in_livez_grace)
        found = {"ping": _fixed("")}
        found |= {name: check.problem for name, check in self._storage_checks.items() if ready or name != READINESS}
        found["poststarthook/start-system-namespaces-controller"] = _fixed("" if started else "not finished")
        found |= self._start_checks
        if ready:
            found["shutdown"] = _fixed("process is shutting down" if self._lifecycle.terminating else "")
        return found


def _fixed(problem: str) -> Check:
    async def check() -> str:
        return problem

    return check


def _reply(code: int, text: str) -> Reply:
    return Reply(code, body=text.encode(), content_type=_TEXT, headers=_HEADERS)
