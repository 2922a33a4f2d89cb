"""Watches of the API server: latency of delivery to many watchers, with one that never reads.

The watches of 5,000 watchers share HTTP/2 connections. Two cores are too few for their 150,000 events per second, so
that this load shows how the server saturates.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import ssl
import time
from dataclasses import dataclass, field

import aiohttp
import uvloop

from benchmarks.api_server import EVENTS, event, started_server
from benchmarks.figures import Figure, percentile
from benchmarks.http2_watches import open_watches
from tests.integration.programs import ApiServer

SECONDS = 8.0
LIMIT_SECONDS = 30.0
SATURATED_SECONDS = 60.0
SENT = re.compile(rb'"note":"sent=([0-9.]+);"')
LONGEST_MARK = 64

# watchers, changes per second
LOADS = ((100, 30), (300, 30), (1000, 10))
MANY, MANY_RATE = 5000, 30

FIGURES = (
    Figure("p99_100", "100 watchers, 30 changes per second: p99", "ms", "11"),
    Figure("cpu_100", "server CPU in 8 s", "s", "1.7"),
    Figure("p99_300", "300 watchers, 30 changes per second: p99", "ms", "94", at_most=60),
    Figure("cpu_300", "server CPU in 8 s", "s", "4.0", at_most=4.0),
    Figure("p99_1000", "1000 watchers, 10 changes per second: p99", "ms"),
    Figure("cpu_1000", "server CPU in 8 s", "s"),
    Figure("missed", "changes that were not delivered to a watcher", "", at_most=0),
    Figure("many_rate", f"{MANY} watchers, at most {MANY_RATE} changes per second: events", "1/s"),
    Figure("many_p99", "p99", "ms"),
    Figure("many_cpu", "server CPU per event, with its store", "µs"),
    Figure("many_rss", "server memory (RSS)", "MiB"),
    Figure("many_missed", "events that were not delivered within a minute", ""),
)


@dataclass
class Delivered:
    """Deliveries to all watchers."""

    expected: int
    milliseconds: list[float] = field(default_factory=list)
    complete: asyncio.Event = field(default_factory=asyncio.Event)
    cpu_seconds: float = 0.0

    def receive(self, sent: re.Match[bytes]) -> None:
        """Record an event that contains the time of its creation."""
        self.milliseconds.append(1000 * (time.monotonic() - float(sent[1])))
        if len(self.milliseconds) >= self.expected:
            self.complete.set()


def run() -> dict[str, float]:
    result = {"missed": 0.0}
    for watchers, rate in LOADS:
        with started_server() as server:
            delivered = asyncio.run(_measure(server, watchers, rate))
        result[f"p99_{watchers}"] = percentile(delivered.milliseconds, 0.99)
        result[f"cpu_{watchers}"] = delivered.cpu_seconds
        result["missed"] += delivered.expected - len(delivered.milliseconds)
    with started_server() as server, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return result | runner.run(_measure_many(server))


async def _measure_many(server: ApiServer) -> dict[str, float]:
    delivered = Delivered(expected=MANY * int(MANY_RATE * SECONDS))
    async with _session(server) as session:
        url = server.facts["url"] + EVENTS
        paths = [f"{EVENTS}?watch=1&resourceVersion={await _version(session, url)}"] * MANY
        connections = await open_watches(server, paths, SENT, delivered.receive)
        cpu, started = server.cpu_seconds(), time.monotonic()
        try:
            await _create(session, url, MANY_RATE)
            with contextlib.suppress(TimeoutError):  # missing deliveries are reported as a figure
                await asyncio.wait_for(delivered.complete.wait(), SATURATED_SECONDS)
            seconds, count = time.monotonic() - started, len(delivered.milliseconds)
            return {
                "many_rate": count / seconds,
                "many_p99": percentile(delivered.milliseconds, 0.99),
                "many_cpu": 1e6 * (server.cpu_seconds() - cpu) / count,
                "many_rss": server.rss_mib(),
                "many_missed": delivered.expected - count,
            }
        finally:
            for connection in connections:
                connection.abort()


def _session(server: ApiServer) -> aiohttp.ClientSession:
    tls = ssl.create_default_context(cafile=server.facts["caFile"])
    headers = {"Authorization": f"Bearer {server.facts['token']}"}
    timeout = aiohttp.ClientTimeout(total=None, sock_read=None)
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls, limit=0), headers=headers, timeout=timeout)


async def _version(session: aiohttp.ClientSession, url: str) -> str:
    async with session.get(url, params={"limit": "1"}) as response:
        return str((await response.json())["metadata"]["resourceVersion"])


async def _measure(server: ApiServer, watchers: int, rate: int) -> Delivered:
    delivered = Delivered(expected=watchers * int(rate * SECONDS))
    url = server.facts["url"] + EVENTS
    async with _session(server) as session:
        watch = f"{url}?watch=1&resourceVersion={await _version(session, url)}"
        opened = asyncio.Semaphore(0)
        tasks = [asyncio.create_task(_watch(session, watch, opened, delivered)) for _ in range(watchers)]
        tasks.append(asyncio.create_task(_stall(session, watch, opened)))
        try:
            async with asyncio.timeout(LIMIT_SECONDS):
                for _ in tasks:
                    await opened.acquire()
            cpu = server.cpu_seconds()
            await _create(session, url, rate)
            with contextlib.suppress(TimeoutError):  # missing deliveries are reported as a figure
                await asyncio.wait_for(delivered.complete.wait(), LIMIT_SECONDS)
            delivered.cpu_seconds = server.cpu_seconds() - cpu
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    return delivered


async def _create(session: aiohttp.ClientSession, url: str, rate: int) -> None:
    """Create events at a constant rate, each with the time of its request in its note."""
    started = time.monotonic()
    for number in range(int(rate * SECONDS)):
        await asyncio.sleep(max(0.0, started + number / rate - time.monotonic()))
        body = json.dumps(event(note=f"sent={time.monotonic()};"))
        async with session.post(url, data=body, headers={"Content-Type": "application/json"}) as response:
            response.raise_for_status()


async def _watch(session: aiohttp.ClientSession, url: str, opened: asyncio.Semaphore, delivered: Delivered) -> None:
    async with session.get(url) as response:
        response.raise_for_status()
        opened.release()
        rest = b""
        async for chunk in response.content.iter_any():
            text, end = rest + chunk, 0
            for mark in SENT.finditer(text):
                delivered.receive(mark)
                end = mark.end()
            rest = text[max(end, len(text) - LONGEST_MARK) :]  # a mark may be split across chunks


async def _stall(session: aiohttp.ClientSession, url: str, opened: asyncio.Semaphore) -> None:
    """Open a watch and never read from it."""
    async with session.get(url) as response:
        response.raise_for_status()
        opened.release()
        await asyncio.Event().wait()
