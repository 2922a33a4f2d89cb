"""Answers for ``/debug/pprof/``: profiles for tools, text for people (``debug=1``)."""

from __future__ import annotations

import asyncio
import time
import tracemalloc
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from aiohttp import web

from nodeagent.base.aio import Clock, SystemClock
from nodeagent_plugins.routes_debug.collect import (
    SAMPLES_PER_SECOND,
    Busy,
    cpu_stacks,
    heap_stacks,
    task_stacks,
    thread_stacks,
)
from nodeagent_plugins.routes_debug.contention import ContentionProfile
from nodeagent_plugins.routes_debug.profile import Stack, ValueType, encode_profile

MAX_SECONDS = 300.0
PROFILES = {
    "allocs": "Memory by where it was allocated; needs seconds=N, or PYTHONTRACEMALLOC set when the agent started.",
    "block": "What held the event loop up, with enableContentionProfiling.",
    "cmdline": "The command line of this process.",
    "goroutine": "What every task of the event loop waits at; debug=1 shows text.",
    "heap": "As allocs.",
    "profile": "CPU time for seconds=30.",
    "threadcreate": "What every thread is at; debug=1 shows text.",
}
_clock: Clock = SystemClock()


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
                    return self._block(request)
                case "cmdline":
                    return web.Response(text=await asyncio.to_thread(_command_line))
                case "profile":
                    return await _cpu(request)
                case "heap" | "allocs":
                    return await _heap(request, name)
                case "goroutine":
                    return _stacks(request, "goroutine", task_stacks())
                case "threadcreate":
                    return _stacks(request, "threadcreate", thread_stacks())
        except Busy as error:
            return web.Response(status=409, text=f"{error}\n")
        return web.Response(status=404, text="Unknown profile\n")

    def _block(self, request: web.Request) -> web.Response:
        found = self._contention.stacks() if self._contention is not None else {}
        if _debug(request):
            ordered = sorted(found.items(), key=lambda item: -item[1][1])
            return _text(f"{total / 1e9:.3f} s in {count} delays\n{_shown(stack)}" for stack, (count, total) in ordered)
        types = (ValueType("contentions", "count"), ValueType("delay", "nanoseconds"))
        return _download("block", encode_profile(types, found, at_nanoseconds=time.time_ns()))


async def _cpu(request: web.Request) -> web.Response:
    seconds = _seconds(request, 30.0)
    period = 10**9 // SAMPLES_PER_SECOND
    at = time.time_ns()
    counts = await cpu_stacks(seconds, _clock)
    types = (ValueType("samples", "count"), ValueType("cpu", "nanoseconds"))
    samples = {stack: (count, count * period) for stack, count in counts.items()}
    return _download(
        "profile",
        encode_profile(
            types,
            samples,
            at_nanoseconds=at,
            duration_nanoseconds=int(seconds * 10**9),
            period=(types[1], period),
        ),
    )


async def _heap(request: web.Request, name: str) -> web.Response:
    seconds = _seconds(request, 0.0)
    if not seconds and not tracemalloc.is_tracing():
        text = "memory is not traced: ask with seconds=N, or start the agent with PYTHONTRACEMALLOC=16\n"
        return web.Response(status=503, text=text)
    samples = await heap_stacks(seconds, _clock)
    if _debug(request):
        ordered = sorted(samples.items(), key=lambda item: -item[1][1])
        return _text(f"{size} bytes in {count} objects\n{_shown(stack)}" for stack, (count, size) in ordered)
    kind = "inuse" if name == "heap" else "alloc"
    types = (ValueType(f"{kind}_objects", "count"), ValueType(f"{kind}_space", "bytes"))
    return _download(name, encode_profile(types, samples, at_nanoseconds=time.time_ns()))


def _stacks(request: web.Request, name: str, stacks: Mapping[str, Stack]) -> web.Response:
    if _debug(request):
        return _text([f"{name} profile: total {len(stacks)}\n", *(f"{n}\n{_shown(s)}" for n, s in stacks.items())])
    counts: Counter[Stack] = Counter(stacks.values())
    samples: dict[Stack, Sequence[int]] = {stack: (count,) for stack, count in counts.items()}
    return _download(name, encode_profile((ValueType(name, "count"),), samples, at_nanoseconds=time.time_ns()))


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


def _download(name: str, body: bytes) -> web.Response:
    disposition = f'attachment; filename="{name}"'
    headers = {"Content-Type": "application/octet-stream", "Content-Disposition": disposition}
    return web.Response(body=body, headers=headers)
