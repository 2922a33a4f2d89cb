"""Shutdown plan on disk for ``nodeagent shutdown rehearse``."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence
from pathlib import Path

from nodeagent import hookimpl
from nodeagent.contracts.background import BackgroundLoop
from nodeagent.contracts.context import AgentContext
from nodeagent.contracts.shutdown import ShutdownPeriods, ShutdownPlan, ShutdownPod, plan_file, plan_to_json

_log = logging.getLogger(__name__)

_GATHER_SECONDS = 1.0
"""Coalesces the changes of several pods into one write."""


class PlanFile:
    """Writes the plan when pods or the state of logind change."""

    name = "shutdown plan"

    def __init__(self, periods: ShutdownPeriods, context: AgentContext) -> None:
        self._periods, self._context = periods, context
        self._problem = ""
        self._changed = asyncio.Event()
        self._changed.set()

    def report_problem(self, problem: str) -> None:
        """Record why graceful shutdown is unavailable; empty if it is available."""
        self._problem = problem
        self._changed.set()

    @hookimpl
    def nodeagent_provide_background_loops(self) -> Sequence[BackgroundLoop]:
        return [self]

    @hookimpl
    async def nodeagent_pod_admitted(self) -> None:
        self._changed.set()

    @hookimpl
    async def nodeagent_pod_terminated(self) -> None:
        self._changed.set()

    async def run(self) -> None:
        """Update the file until cancelled."""
        file, failing = plan_file(self._context.root_dir), False
        while True:
            await self._changed.wait()
            await self._context.clock.sleep(_GATHER_SECONDS)
            self._changed.clear()
            pods = sorted((ShutdownPod.of(pod) for pod in self._context.pods.active()), key=_name)
            plan = ShutdownPlan(self._periods, pods, self._problem)
            try:
                await asyncio.to_thread(_write, file, json.dumps(plan_to_json(plan)))
            except OSError as error:
                if not failing:
                    _log.warning("Failed to write shutdown plan", extra={"path": str(file), "err": str(error)})
                failing = True
            else:
                failing = False


def _name(pod: ShutdownPod) -> tuple[str, str]:
    return pod.namespace, pod.name


def _write(file: Path, content: str) -> None:
    aside = file.with_name(f".{file.name}.new")
    aside.write_text(content, encoding="utf-8")
    aside.rename(file)
