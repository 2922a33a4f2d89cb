"""``/healthz`` of the secure and the read-only port: all checks, or one of them by name."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from aiohttp import web

from nodeagent.base.logging import active
from nodeagent.base.metrics import Counter, Gauge
from nodeagent.contracts.server import Exposure, Route

_log = logging.getLogger(__name__)

STATE = Gauge(
    "kubernetes_healthcheck",
    "This metric records the result of a single healthcheck.",
    ("name", "type"),
    prefixed=False,
    page="slis",
)
RESULTS = Counter(
    "kubernetes_healthchecks_total",
    "This metric records the results of all healthcheck.",
    ("name", "type", "status"),
    prefixed=False,
    page="slis",
)
FINE_GRAINED = ("healthz", "proxy")
_TYPE = "healthz"

Check = Callable[[], str]
"""Returns an error message, or an empty text."""


def health_routes(checks: Mapping[str, Check]) -> Sequence[Route]:
    """Return the routes; the cause of a failure is logged, and returned by the path of the check.

    :param checks: checks in addition to ``ping`` and ``log``.
    """
    checks = {"ping": lambda: "", "log": _LogCheck(), **checks}

    async def everything(request: web.Request) -> web.Response:
        excluded = set(request.query.getall("exclude", ()))
        chosen = {name: check for name, check in checks.items() if name not in excluded}
        lines, failed = [], False
        for name, check in chosen.items():
            problem = check()
            _count(name, problem)
            if problem:
                _log.warning("Health check failed", extra={"check": name, "err": problem})
                failed = True
            lines.append(f"[-]{name} failed: reason withheld" if problem else f"[+]{name} ok")
        if failed:
            return web.Response(status=500, text="\n".join([*lines, "healthz check failed"]) + "\n")
        if "verbose" not in request.query:
            return web.Response(text="ok")
        return web.Response(text="\n".join([*lines, "healthz check passed"]) + "\n")

    async def one(request: web.Request) -> web.Response:
        check = checks.get(request.match_info["check"])
        if check is None:
            return web.Response(status=404, text="no such check\n")
        problem = check()
        _count(request.match_info["check"], problem)
        if problem:
            return web.Response(status=500, text=f"internal server error: {problem}\n")
        return web.Response(text="ok")

    return (
        Route("GET", "/healthz", everything, Exposure.READ_ONLY, fine_grained=FINE_GRAINED),
        Route("GET", "/healthz/{check}", one, Exposure.READ_ONLY, fine_grained=FINE_GRAINED),
    )


def _count(check: str, problem: str) -> None:
    STATE.set(int(not problem), check, _TYPE)
    RESULTS.inc(check, _TYPE, "error" if problem else "success")


class _LogCheck:
    """Fails if log lines were dropped since the previous check."""

    def __init__(self) -> None:
        self._lost = 0

    def __call__(self) -> str:
        log = active()
        before, self._lost = self._lost, log.dropped if log is not None else 0
        return f"{self._lost - before} log lines were dropped" if self._lost > before else ""
