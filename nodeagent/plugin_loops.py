"""Background loops of plugins: run, restarted when they fail, and replaced with their plugins."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial

from nodeagent.base.aio import Backoff, Clock
from nodeagent.contracts.background import BackgroundLoop, CheckedLoop

STOP_SECONDS = 10.0
_log = logging.getLogger(__name__)


class PluginLoops:
    """Runs the loops of all plugins.

    :param loops: the loops, each with the name of its plugin object.
    """

    def __init__(self, loops: Sequence[tuple[str, BackgroundLoop]], clock: Clock) -> None:
        self._loops, self._clock = list(loops), clock
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._problems: dict[str, str] = {}
        self._running = False
        self._failed = asyncio.Event()

    async def run(self) -> None:
        """Run the loops until cancelled. An exception that is no ``Exception`` is raised."""
        self._running = True
        for plugin, loop in self._loops:
            self._start(plugin, loop)
        try:
            await self._failed.wait()
            for task in self._tasks.values():
                if task.done():
                    task.result()
        finally:
            await self._cancel(set(self._tasks))

    def problems(self) -> dict[str, str]:
        """Return the problem of each loop by its name, empty for a healthy one."""
        return dict.fromkeys(self._tasks, "") | self._problems

    def health_checks(self) -> dict[str, Callable[[], str]]:
        """Return the checks of the loops that have one; each returns an error message or an empty text."""

        def check(name: str, failure: str) -> str:
            problem = self._problems.get(name)
            return f"{failure}: {problem}" if problem else ""

        return {
            loop.health_check: partial(check, _name(plugin, loop), loop.failure)
            for plugin, loop in self._loops
            if isinstance(loop, CheckedLoop)
        }

    def start_loops(self, loops: Sequence[tuple[str, BackgroundLoop]]) -> None:
        """Run further loops."""
        self._loops.extend(loops)
        if self._running:
            for plugin, loop in loops:
                self._start(plugin, loop)

    async def stop_loops(self, plugin: str) -> None:
        """Cancel the loops of a plugin."""
        ended = [each for each in self._loops if each[0].partition(".")[0] == plugin]
        self._loops = [each for each in self._loops if each not in ended]
        await self._cancel({_name(owner, loop) for owner, loop in ended})

    def _start(self, plugin: str, loop: BackgroundLoop) -> None:
        name = _name(plugin, loop)
        task = self._tasks[name] = asyncio.create_task(self._run(plugin, loop), name=name)
        task.add_done_callback(lambda ended: None if ended.cancelled() else self._failed.set())

    async def _run(self, plugin: str, loop: BackgroundLoop) -> None:
        """Run a loop, and restart it when it fails or returns."""
        name, backoff = _name(plugin, loop), Backoff(1.0, 300.0)
        fields = {"plugin": plugin, "loop": loop.name}
        while True:
            self._problems.pop(name, None)
            try:
                await loop.run()
            except Exception as error:
                self._problems[name] = f"failed, restarting: {error!r}"
                _log.exception("Failed to run background loop of plugin, restarting it", extra=fields)
            else:
                _log.warning("Background loop of plugin returned, restarting it", extra=fields)
            await self._clock.sleep(backoff.next())

    async def _cancel(self, names: set[str]) -> None:
        tasks = [task for name in names if (task := self._tasks.pop(name, None)) is not None]
        for task in tasks:
            task.cancel()
        for name in names:
            self._problems.pop(name, None)
        if tasks:
            _, stuck = await asyncio.wait(tasks, timeout=STOP_SECONDS)
            for task in stuck:
                _log.error("Failed to stop loop in time", extra={"loop": task.get_name()})


def _name(plugin: str, loop: BackgroundLoop) -> str:
    return f"{plugin} {loop.name}"
