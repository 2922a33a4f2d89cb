"""Profiles of ``/debug/pprof/NAME``, in the pprof format or as text (``debug=1``)."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from nodeagent.base.aio import Clock, SystemClock
from nodeagent.base.profiling.contention import ContentionProfile
from nodeagent.base.profiling.encoding import Stack, ValueType, encode_profile
from nodeagent.base.profiling.sampling import (
    SAMPLES_PER_SECOND,
    cpu_stacks,
    heap_stacks,
    object_stacks,
    task_stacks,
    thread_names,
    thread_stacks,
)
from nodeagent.base.profiling.timeline import encode_trace, sample
from nodeagent.base.structs import Struct

MAX_TRACE_SECONDS = 30.0
PROFILES = {
    "allocs": "Same as heap.",
    "block": "Stacks that blocked the event loop; recorded only with contention profiling.",
    "cmdline": "Command line of this process.",
    "goroutine": "Stacks of all tasks of the event loop; debug=1 returns text.",
    "heap": "Objects by type, after a collection with gc=1; with seconds=N, or if PYTHONTRACEMALLOC was set at the "
    "start of the process, memory by allocation stack.",
    "mutex": "Always empty: this process has no lock with long waits; see block.",
    "profile": "CPU time for seconds=30.",
    "threadcreate": "Stacks of all threads; debug=1 returns text.",
    "trace": "Stacks of all threads over time for seconds=1, as a file for speedscope.",
}
Samples = Mapping[Stack, Sequence[int]]


class InvalidParameter(ValueError):
    """A query parameter has an invalid value; the text names parameter and rule."""


class Content(Struct, frozen=True):
    """Content of a response."""

    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    file: str = ""
    """File name of a download, empty for text."""

    @property
    def headers(self) -> dict[str, str]:
        """Return the headers of the response."""
        samples = {"Content-Type": self.content_type, "X-Content-Type-Options": "nosniff"}
        return samples | ({"Content-Disposition": f'attachment; filename="{self.file}"'} if self.file else {})


class Profiles:
    """Profiles by name.

    :param contention: source of the block profile, which is empty without it.
    :param max_seconds: maximum duration of a request.
    """

    def __init__(self, contention: ContentionProfile | None, *, max_seconds: float, clock: Clock | None = None) -> None:
        self._contention = contention
        self._max_seconds = max_seconds
        self._clock = clock or SystemClock()

    async def take(self, name: str, query: Mapping[str, str]) -> Content | None:
        """Return the profile *name*, ``None`` if there is none of that name.

        :param query: parameters ``seconds``, ``debug`` and ``gc``.
        :raises InvalidParameter: a parameter is invalid.
        :raises Busy: a profile of the same kind is in progress.
        """
        match name:
            case "block":
                return await self._delays(query, name, self._block)
            case "mutex":
                return await self._delays(query, name, dict)
            case "cmdline":
                return Content(await asyncio.to_thread(_command_line))
            case "profile":
                return await self._cpu(query)
            case "trace":
                return await self._trace(query)
            case "heap" | "allocs":
                return await self._heap(query, name)
            case "goroutine":
                return await self._stacks(query, name, task_stacks)
            case "threadcreate":
                return await self._stacks(query, name, thread_stacks)
        return None

    def _block(self) -> Samples:
        return self._contention.stacks() if self._contention is not None else {}

    async def _delays(self, query: Mapping[str, str], name: str, read: Callable[[], Samples]) -> Content:
        samples, duration = await self._changes(query, read)
        if _debug(query):
            ordered = sorted(samples.items(), key=lambda item: -item[1][1])
            return _text(f"{total / 1e9:.3f} s in {count} delays\n{_shown(stack)}" for stack, (count, total) in ordered)
        types = (ValueType("contentions", "count"), ValueType("delay", "nanoseconds"))
        return _file(name, encode_profile(types, samples, at_nanoseconds=time.time_ns(), duration_nanoseconds=duration))

    async def _cpu(self, query: Mapping[str, str]) -> Content:
        seconds = self._seconds(query, 30.0)
        at = time.time_ns()
        samples = await cpu_stacks(seconds, self._clock)
        types = (ValueType("samples", "count"), ValueType("cpu", "nanoseconds"))
        duration, period = int(seconds * 10**9), (types[1], 10**9 // SAMPLES_PER_SECOND)
        body = encode_profile(types, samples, at_nanoseconds=at, duration_nanoseconds=duration, period=period)
        return _file("profile", body)

    async def _trace(self, query: Mapping[str, str]) -> Content:
        seconds = self._seconds(query, 1.0)
        if seconds > MAX_TRACE_SECONDS:
            raise InvalidParameter(f"seconds must be at most {MAX_TRACE_SECONDS:g} for a trace")
        stop = threading.Event()
        try:
            samples = await asyncio.to_thread(sample, seconds, stop)
        finally:
            stop.set()  # Also when the client has closed the connection.
        body = await asyncio.to_thread(encode_trace, samples, thread_names(), f"{seconds:g} s of this process")
        return _file("trace.speedscope.json", body, "application/json")

    async def _heap(self, query: Mapping[str, str], name: str) -> Content:
        seconds = self._seconds(query, 0.0)
        kind = "alloc" if name == "allocs" else "inuse"
        import tracemalloc  # Deferred: for this profile only.

        if seconds or tracemalloc.is_tracing():
            samples = await heap_stacks(seconds, self._clock)
        else:
            kind = "inuse"
            samples = await asyncio.to_thread(object_stacks, collect=query.get("gc", "0") not in ("", "0"))
        if _debug(query):
            ordered = sorted(samples.items(), key=lambda item: -item[1][1])
            return _text(f"{size} bytes in {count} objects\n{_shown(stack)}" for stack, (count, size) in ordered)
        types = (ValueType(f"{kind}_objects", "count"), ValueType(f"{kind}_space", "bytes"))
        duration = int(seconds * 10**9)
        return _file(name, encode_profile(types, samples, at_nanoseconds=time.time_ns(), duration_nanoseconds=duration))

    async def _stacks(self, query: Mapping[str, str], name: str, read: Callable[[], Mapping[str, Stack]]) -> Content:
        if _debug(query):
            stacks = read()
            head = f"{name} profile: total {len(stacks)}\n"
            return _text([head, *(f"{label}\n{_shown(stack)}" for label, stack in stacks.items())])

        def counted() -> Samples:
            return {stack: (count,) for stack, count in Counter(read().values()).items()}

        samples, duration = await self._changes(query, counted)
        types = (ValueType(name, "count"),)
        return _file(name, encode_profile(types, samples, at_nanoseconds=time.time_ns(), duration_nanoseconds=duration))

    async def _changes(self, query: Mapping[str, str], read: Callable[[], Samples]) -> tuple[Samples, int]:
        """Return the current samples, or with ``seconds=N`` their change over that time; and its nanoseconds."""
        seconds = self._seconds(query, 0.0)
        if not seconds:
            return read(), 0
        before = read()
        await self._clock.sleep(seconds)
        after = read()
        changes: dict[Stack, Sequence[int]] = {}
        for stack in {**before, **after}:
            old, new = before.get(stack, ()), after.get(stack, ())
            change = tuple(one - other for one, other in itertools.zip_longest(new, old, fillvalue=0))
            if any(change):
                changes[stack] = change
        return changes, int(seconds * 10**9)

    def _seconds(self, query: Mapping[str, str], default: float) -> float:
        text = query.get("seconds", "")
        try:
            seconds = float(text) if text else min(default, self._max_seconds)
        except ValueError:
            seconds = -1.0
        if not 0 <= seconds <= self._max_seconds:
            raise InvalidParameter(f"seconds must be a number from 0 to {self._max_seconds:g}")
        return seconds


def _command_line() -> bytes:
    """Return the arguments separated by zero bytes, as pprof expects them."""
    return Path("/proc/self/cmdline").read_bytes().rstrip(b"\0")


def _debug(query: Mapping[str, str]) -> bool:
    return query.get("debug", "0") not in ("", "0")


def _shown(stack: Stack) -> str:
    return "".join(f"\t{frame.function}\t{frame.file}:{frame.line}\n" for frame in stack)


def _text(parts: Iterable[str]) -> Content:
    return Content("\n".join(parts).encode(errors="replace"))


def _file(name: str, body: bytes, content_type: str = "application/octet-stream") -> Content:
    return Content(body, content_type, name)
