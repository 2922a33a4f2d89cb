"""Profile of one plugin: its calls, its CPU time by line, and the memory that its lines have allocated."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from nodeagent.base.aio import Clock
from nodeagent.base.profiling.encoding import Frame, Stack
from nodeagent.base.profiling.sampling import Busy, cpu_stacks, heap_stacks
from nodeagent.contracts.local import LocalQuery
from nodeagent.contracts.plugin_report import (
    MAX_PROFILE_SECONDS,
    PROFILE_QUERY,
    PluginProfile,
    PluginProfileRequest,
    ProfiledAllocation,
    ProfiledCode,
    ProfiledHook,
)
from nodeagent.pluginmanager import PluginManager

_LINES = 15
"""Maximum number of lines of code that are returned, each for CPU time and for memory."""
_NANO = 1_000_000_000


class PluginProfiler:
    """Profiles a plugin on request; memory is traced only during a profile, which slows the agent down."""

    def __init__(self, plugins: PluginManager, clock: Clock) -> None:
        self._plugins, self._clock = plugins, clock

    def local_queries(self) -> Sequence[LocalQuery]:
        """Return the local queries."""
        return (LocalQuery(PROFILE_QUERY, PluginProfileRequest, self.profile, MAX_PROFILE_SECONDS),)

    async def profile(self, request: PluginProfileRequest) -> PluginProfile:
        """Return what the plugin does within the given time.

        :raises ValueError: the plugin is unknown, the time is invalid, or another profile is in progress.
        """
        if not 0 < request.seconds <= MAX_PROFILE_SECONDS:
            raise ValueError(f"seconds: invalid value {request.seconds:g}: must be in (0, {MAX_PROFILE_SECONDS:g}]")
        if self._plugins.info(request.plugin) is None:
            names = sorted({info.plugin for info in self._plugins.plugins()})
            raise ValueError(f"unknown plugin {request.plugin!r}; plugins are {', '.join(names)}")
        before = self._calls(request.plugin)
        try:
            cpu, heap = await asyncio.gather(
                cpu_stacks(request.seconds, self._clock), heap_stacks(request.seconds, self._clock)
            )
        except Busy as busy:
            raise ValueError(str(busy)) from busy
        owner = _Owner(self._plugins.owner_of, request.plugin)
        time_by_frame = _by_frame(cpu, owner.innermost)
        memory_by_frame = _by_frame(heap, owner.innermost)
        return PluginProfile(
            plugin=request.plugin,
            seconds=request.seconds,
            cpu_seconds=_rounded(sum(values[1] for values in time_by_frame.values())),
            agent_cpu_seconds=_rounded(sum(values[1] for values in cpu.values())),
            allocated_bytes=sum(values[1] for values in memory_by_frame.values()),
            hooks=[
                ProfiledHook(hook, calls - before.get(hook, (0, 0.0))[0], _rounded_seconds(used - before[hook][1]))
                if hook in before
                else ProfiledHook(hook, calls, _rounded_seconds(used))
                for hook, (calls, used) in sorted(self._calls(request.plugin).items())
            ],
            code=[
                ProfiledCode(f"{frame.file}:{frame.line}", frame.function, _rounded(values[1]))
                for frame, values in _largest(time_by_frame)
            ],
            allocations=[
                ProfiledAllocation(f"{frame.file}:{frame.line}", values[0], values[1])
                for frame, values in _largest(memory_by_frame)
            ],
        )

    def _calls(self, plugin: str) -> dict[str, tuple[int, float]]:
        """Return number and CPU seconds of the calls of each hook."""
        found: dict[str, tuple[int, float]] = {}
        for info in self._plugins.plugins():
            if info.plugin == plugin:
                for hook, stats in info.stats.items():
                    calls, used = found.get(hook, (0, 0.0))
                    found[hook] = calls + stats.calls, used + stats.cpu_seconds
        return found


class _Owner:
    """Finds the frames of a plugin."""

    def __init__(self, owner_of: Callable[[str], str], plugin: str) -> None:
        self._owner_of, self._plugin = owner_of, plugin
        self._known: dict[str, bool] = {}

    def innermost(self, stack: Stack) -> Frame | None:
        """Return the innermost frame in the code of the plugin, ``None`` if there is none."""
        for frame in stack:
            owned = self._known.get(frame.file)
            if owned is None:
                owned = self._known[frame.file] = self._owner_of(frame.file) == self._plugin
            if owned:
                return frame
        return None


def _by_frame(
    stacks: Mapping[Stack, Sequence[int]], find: Callable[[Stack], Frame | None]
) -> dict[Frame, tuple[int, int]]:
    """Return the sums of both values by the frame that *find* returns."""
    counts: Counter[Frame] = Counter()
    amounts: Counter[Frame] = Counter()
    for stack, (count, amount) in stacks.items():
        if (frame := find(stack)) is not None:
            counts[frame] += count
            amounts[frame] += amount
    return {frame: (counts[frame], amount) for frame, amount in amounts.items()}


def _largest(by_frame: Mapping[Frame, tuple[int, int]]) -> list[tuple[Frame, tuple[int, int]]]:
    return sorted(by_frame.items(), key=lambda item: -item[1][1])[:_LINES]


def _rounded(nanoseconds: int) -> float:
    return _rounded_seconds(nanoseconds / _NANO)


def _rounded_seconds(seconds: float) -> float:
    return round(seconds, 4)
