"""Watches of the API server: bookmarks of 1,000 idle watches, and their resumption, also after 1,000 missed changes.

After a restart of a server or a network failure, all clients resume their watches at the same time.
"""

from __future__ import annotations

import asyncio
import re
import time

import uvloop

from benchmarks.api_server import EVENTS, event, started_server
from benchmarks.figures import Figure
from benchmarks.http2_watches import WatchConnection, open_watches
from tests.integration.programs import ApiServer

WATCHES = 1000
MISSED = 1000
BOOKMARK_SECONDS = 75.0
"""Time within which each watch gets a bookmark after a change: they are sent every minute."""
LIMIT_SECONDS = 120.0
_BOOKMARK = re.compile(rb'"type":"BOOKMARK"')
_MARK = re.compile(rb'"note":"number=([0-9]+);"')

FIGURES = (
    Figure("bookmark_cpu", "server CPU per bookmark of an idle watch", "µs"),
    Figure("bookmarks", f"bookmarks of {WATCHES:,} watches within {BOOKMARK_SECONDS:g} s", "", at_least=WATCHES),
    Figure("idle_cpu", f"{WATCHES:,} idle watches without bookmarks: server CPU", "% of a core"),
    Figure("resume", f"{WATCHES:,} watches: time until all have resumed", "s"),
    Figure("resume_cpu", "server CPU per resumption", "ms"),
    Figure("missed", f"{WATCHES:,} watches with {MISSED:,} missed changes: time until all have received them", "s"),
    Figure("missed_cpu", "server CPU per resumption with them", "ms"),
    Figure("lost", "changes that were not received", "", at_most=0),
)


def run() -> dict[str, float]:
    with started_server() as server, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_measure(server))


async def _measure(server: ApiServer) -> dict[str, float]:
    idle = await _idle_cpu(server, bookmarks=False)
    marked = await _idle_cpu(server, bookmarks=True)
    version = server.get(EVENTS + "?limit=1")["metadata"]["resourceVersion"]
    resumed = await _resume(server, version, expected=0)
    for number in range(MISSED):
        server.request("POST", EVENTS, event(note=f"number={number};"))
    missed = await _resume(server, version, expected=MISSED)
    bookmarks = max(1, marked["events"])
    return {
        "bookmark_cpu": 1e6 * max(0.0, marked["cpu"] - idle["cpu"]) / bookmarks,
        "bookmarks": marked["events"],
        "idle_cpu": 100 * idle["cpu"] / BOOKMARK_SECONDS,
        "resume": resumed["seconds"],
        "resume_cpu": 1000 * resumed["cpu"] / WATCHES,
        "missed": missed["seconds"],
        "missed_cpu": 1000 * missed["cpu"] / WATCHES,
        "lost": WATCHES * MISSED - missed["events"],
    }


async def _idle_cpu(server: ApiServer, *, bookmarks: bool) -> dict[str, float]:
    """Return the CPU seconds of the server while watches of pods are idle, and the number of their bookmarks."""
    events = 0

    def count(_: object) -> None:
        nonlocal events
        events += 1

    version = server.get(EVENTS + "?limit=1")["metadata"]["resourceVersion"]
    # No event has this name: it is selected by no change, and bookmarks are sent.
    selected = f"{EVENTS}?watch=1&fieldSelector=metadata.name%3Dnone&resourceVersion={version}"
    paths = [f"{selected}&allowWatchBookmarks={str(bookmarks).lower()}"] * WATCHES
    connections = await open_watches(server, paths, _BOOKMARK, count)
    try:
        server.request("POST", EVENTS, event())
        cpu = server.cpu_seconds()
        await asyncio.sleep(BOOKMARK_SECONDS)
        return {"cpu": server.cpu_seconds() - cpu, "events": events}
    finally:
        _abort(connections)


async def _resume(server: ApiServer, version: str, expected: int) -> dict[str, float]:
    """Open the watches from *version* on, and wait until each has received *expected* events."""
    events, complete = 0, asyncio.Event()

    def count(_: object) -> None:
        nonlocal events
        events += 1
        if events >= expected * WATCHES:
            complete.set()

    cpu, started = server.cpu_seconds(), time.monotonic()
    connections = await open_watches(server, [f"{EVENTS}?watch=1&resourceVersion={version}"] * WATCHES, _MARK, count)
    try:
        if expected:
            async with asyncio.timeout(LIMIT_SECONDS):
                await complete.wait()
        return {"seconds": time.monotonic() - started, "cpu": server.cpu_seconds() - cpu, "events": events}
    finally:
        _abort(connections)


def _abort(connections: list[WatchConnection]) -> None:
    for connection in connections:
        connection.abort()
