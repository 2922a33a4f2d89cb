"""Answers for ``/debug/pprof/``: profiles for tools, text for people (``debug=1``)."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from aiohttp import web

from nodeagent.base.aio import Clock, SystemClock
from nodeagent_plugins.routes_debug.collect import (
    SAMPLES_PER_SECOND,
    Busy,
    cpu_stacks,
    heap_stacks,
    object_stacks,
    task_stacks,
    thread_names,
    thread_stacks,
)
from nodeagent_plugins.routes_debug.contention import ContentionProfile
from nodeagent_plugins.routes_debug.profile import Stack, ValueType, encode_profile
from nodeagent_plugins.routes_debug.trace import encode_trace, watch

MAX_SECONDS = 300.0
MAX_TRACE_SECONDS = 30.0
PROFILES = {
    "allocs": "As heap.",
    "block": "What held the event loop up, with enableContentionProfiling.",
    "cmdline": "The command line of this process.",
    "goroutine": "What every task of the event loop waits at; debug=1 shows text.",
    "heap": "Objects by their type, after a collection with gc=1; with seconds=N, or PYTHONTRACEMALLOC set when the "
    "agent started, memory by where it was allocated.",
    "mutex": "Empty: no lock of this process holds anything up for long; see block.",
    "profile": "CPU time for seconds=30.",
    "threadcreate": "What every thread is at; debug=1 shows text.",
    "trace": "What every thread did one moment after the other, for seconds=1, as a file for speedscope.",
}
_clock: Clock = SystemClock()
Samples = Mapping[Stack, Sequence[int]]


async def to_index(request: web.Request) -> web.Response:
    return web.Response(status=301, headers={"Location": "/debug/pprof/"})


async def index(request: web.Request) -> web.Response:
    rows = "\n".join(f'<li><a href="./{name}?debug=1">{name}</a> {text}' for name, text in PROFILES.items())
    page = f'<!doctype html>\n<meta charset="utf-8">\n<title>Profiles</title>\n<ul>\n{rows}\n</ul>\n'
    return web.Response(text=page, content_type="text/html", headers={"Content-Security-Policy": "default-src 'none'"})


async def symbol(request: web.Request) -> web.Response:
    """Tell tools that profiles carry their symbols."""
    return web.Response(text="num_symbols: 0\n")


class Profiles:
    """Answers with the profile that the path names."""

    def __init__(self, contention: ContentionProfile | None) -> None:
        self._contention = contention

    async def handle(self, request: web.Request) -> web.Response:
        name = request.match_info["profile"]
        try:
            match name:
                case "block":
                    return await _delays(request, name, self._block)
                case "mutex":
                    return await _delays(request, name, dict)
                case "cmdline":
                    return web.Response(text=await asyncio.to_thread(_command_line))
                case "profile":
                    return await _cpu(request)
                case "trace":
                    return await _trace(request)
                case "heap" | "allocs":
                    return await _heap(request, name)
                case "goroutine":
                    return await _stacks(request, name, task_stacks)
                case "threadcreate":
                    return await _stacks(request, name, thread_stacks)
        except Busy as error:
            return web.Response(status=409, text=f"{error}\n")
        return web.Response(status=404, text="Unknown profile\n")

    def _block(self) -> Samples:
        return self._contention.stacks() if self._contention is not None else {}


async def _delays(request: web.Request, name: str, look: Callable[[], Samples]) -> web.Response:
    found, took = await _looked(request, look)
    if _debug(request):
        ordered = sorted(found.items(), key=lambda item: -item[1][1])
        return _text(f"{total / 1e9:.3f} s in {count} delays\n{_shown(stack)}" for stack, (count, total) in ordered)
    types = (ValueType("contentions", "count"), ValueType("delay", "nanoseconds"))
    return _download(name, encode_profile(types, found, at_nanoseconds=time.time_ns(), duration_nanoseconds=took))


async def _cpu(request: web.Request) -> web.Response:
    seconds = _seconds(request, 30.0)
    at = time.time_ns()
    samples = await cpu_stacks(seconds, _clock)
    types = (ValueType("samples", "count"), ValueType("cpu", "nanoseconds"))
    return _download(
        "profile",
        encode_profile(
            types,
            samples,
            at_nanoseconds=at,
            duration_nanoseconds=int(seconds * 10**9),
            period=(types[1], 10**9 // SAMPLES_PER_SECOND),
        ),
    )


async def _trace(request: web.Request) -> web.Response:
    seconds = _seconds(request, 1.0)
    if seconds > MAX_TRACE_SECONDS:
        raise web.HTTPBadRequest(text=f"seconds must be at most {MAX_TRACE_SECONDS:g} for a trace\n")
    stop = threading.Event()
    try:
        moments = await asyncio.to_thread(watch, seconds, stop)
    finally:
        stop.set()  # also when nobody waits for the answer any more
    body = await asyncio.to_thread(encode_trace, moments, thread_names(), f"{seconds:g} s of the agent")
    return _download("trace.speedscope.json", body, "application/json")


async def _heap(request: web.Request, name: str) -> web.Response:
    seconds = _seconds(request, 0.0)
    kind = "alloc" if name == "allocs" else "inuse"
    if seconds or tracemalloc.is_tracing():
        samples = await heap_stacks(seconds, _clock)
    else:
        kind = "inuse"
        samples = await asyncio.to_thread(object_stacks, collect=request.query.get("gc", "0") not in ("", "0"))
    if _debug(request):
        ordered = sorted(samples.items(), key=lambda item: -item[1][1])
        return _text(f"{size} bytes in {count} objects\n{_shown(stack)}" for stack, (count, size) in ordered)
    types = (ValueType(f"{kind}_objects", "count"), ValueType(f"{kind}_space", "bytes"))
    duration = int(seconds * 10**9)
    return _download(name, encode_profile(types, samples, at_nanoseconds=time.time_ns(), duration_nanoseconds=duration))


async def _stacks(request: web.Request, name: str, look: Callable[[], Mapping[str, Stack]]) -> web.Response:
    if _debug(request):
        stacks = look()
        return _text([f"{name} profile: total {len(stacks)}\n", *(f"{n}\n{_shown(s)}" for n, s in stacks.items())])

    def counted() -> Samples:
        return {stack: (count,) for stack, count in Counter(look().values()).items()}

    samples, took = await _looked(request, counted)
    types = (ValueType(name, "count"),)
    return _download(name, encode_profile(types, samples, at_nanoseconds=time.time_ns(), duration_nanoseconds=took))


async def _looked(request: web.Request, look: Callable[[], Samples]) -> tuple[Samples, int]:
    """Return what there is, or with ``seconds=N`` by how much it changes in that time; and nanoseconds."""
    seconds = _seconds(request, 0.0)
    if not seconds:
        return look(), 0
    before = look()
    await _clock.sleep(seconds)
    after = look()
    changes: dict[Stack, Sequence[int]] = {}
    for stack in {**before, **after}:
        old, new = before.get(stack, ()), after.get(stack, ())
        change = tuple(one - other for one, other in itertools.zip_longest(new, old, fillvalue=0))
        if any(change):
            changes[stack] = change
    return changes, int(seconds * 10**9)


def _command_line() -> str:
    """Return the arguments, parted by zero bytes as tools expect them."""
    return Path("/proc/self/cmdline").read_text(errors="replace").rstrip("\0")


def _seconds(request: web.Request, default: float) -> float:
    text = request.query.get("seconds", "")
    try:
        seconds = float(text) if text else default
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= MAX_SECONDS:
        raise web.HTTPBadRequest(text=f"seconds must be a number from 0 to {MAX_SECONDS:g}\n")
    return seconds


def _debug(request: web.Request) -> bool:
    return request.query.get("debug", "0") not in ("", "0")


def _shown(stack: Stack) -> str:
    return "".join(f"\t{frame.function}\t{frame.file}:{frame.line}\n" for frame in stack)


def _text(parts: Iterable[str]) -> web.Response:
    return web.Response(text="\n".join(parts))


def _download(name: str, body: bytes, content_type: str = "application/octet-stream") -> web.Response:
    disposition = f'attachment; filename="{name}"'
    headers = {"Content-Type": content_type, "Content-Disposition": disposition}
    return web.Response(body=body, headers=headers)
