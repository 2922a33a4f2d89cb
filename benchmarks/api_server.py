"""The API server alone: event creations, gets and lists, over TLS with durable writes; needs ``wrk``."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import shutil
import ssl
import statistics
import subprocess
import tempfile
import time
import urllib.parse
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks.figures import Figure
from benchmarks.node import Programs, stop
from tests.integration.programs import ApiServer

EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
MANY = 22_000
CONNECTIONS = 16
LOAD_SECONDS = 10
LISTS = 5
DRAWN_TWICE = 0.003
"""Share of creations that may fail: the reference refuses a name that it happened to generate before."""

FIGURES = (
    Figure("rss_empty", "API server memory (RSS) at its start", "MiB", "243 and 43 of its store"),
    Figure("creates", "event creations", "1/s", "2196", at_least=4400),
    Figure("create_p99", "event creation, p99", "ms", "20", at_most=20),
    Figure("create_cpu", "server CPU for one creation", "ms", "0.83"),
    Figure("gets", "gets of one event", "1/s", "4790", at_least=9600),
    Figure("short_lists", "lists with limit=1", "1/s", "811"),
    Figure("list", f"list of {MANY} events", "s", "0.57", at_most=0.5),
    Figure("list_mib", "size of that list", "MiB", "31"),
    Figure("rss", "API server memory (RSS) after those lists", "MiB", "423 and 99 of its store", at_most=150),
    Figure("rss_load", f"API server memory (RSS) after {LOAD_SECONDS} s of creations and gets", "MiB"),
)


def event(**more: Any) -> dict[str, Any]:
    """Return an event like those of a node."""
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"generateName": "bench-"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "type": "Normal",
        "reason": "Pulled",
        "action": "Pulling",
        "note": 'Container image "docker.io/library/busybox:1.36" already present on machine',
        "reportingController": "example.com/bench",
        "reportingInstance": "bench-1",
        "regarding": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": "default",
            "name": "web",
            "uid": "5a3c9f0e-6f0b-4b7e-9a44-0d6a6f6c2b11",
        },
        **more,
    }


@contextlib.contextmanager
def started_server() -> Iterator[ApiServer]:
    """Start an API server with an empty store."""
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        server = Programs.new_server(Path(folder))
        try:
            server.start()
            yield server
        finally:
            stop(server)


def run() -> dict[str, float]:
    if shutil.which("wrk") is None:
        raise RuntimeError("the program wrk is not installed")
    with started_server() as server:
        found = {"rss_empty": server.rss_mib()}
        one = server.request("POST", EVENTS, event(metadata={"name": "one"}))
        path = f"{EVENTS}/{one['metadata']['name']}"

        cpu = server.cpu_seconds()
        created = _load(server, "POST", EVENTS, json.dumps(event()))
        found["creates"] = created["requests"] / created["seconds"]
        found["create_p99"] = created["p99_ms"]
        found["create_cpu"] = 1000 * (server.cpu_seconds() - cpu) / created["requests"]

        gets = _load(server, "GET", path)
        found["gets"] = gets["requests"] / gets["seconds"]
        lists = _load(server, "GET", EVENTS + "?limit=1")
        found["short_lists"] = lists["requests"] / lists["seconds"]

        found["rss_load"] = server.rss_mib()
    with started_server() as server:
        asyncio.run(_fill(server, MANY))
        times, size = zip(*(_list(server) for _ in range(LISTS)), strict=True)
        return found | {"list": statistics.median(times), "list_mib": size[0] / 2**20, "rss": server.rss_mib()}


def _load(server: ApiServer, method: str, path: str, body: str = "") -> dict[str, float]:
    """Ask the same as fast as it goes on all connections."""
    script = Path(__file__).with_name("events.lua")
    command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{LOAD_SECONDS}", "-s", str(script), server.facts["url"] + path]
    environment = {**os.environ, "TOKEN": server.facts["token"], "METHOD": method, "BODY": body}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    if found["failed"] > DRAWN_TWICE * found["requests"]:
        raise RuntimeError(f"{method} {path}: {found['failed']:.0f} of {found['requests']:.0f} failed")
    return found


async def _fill(server: ApiServer, count: int) -> None:
    """Create *count* events."""
    tls = ssl.create_default_context(cafile=server.facts["caFile"])
    url = server.facts["url"] + EVENTS
    body = json.dumps(event()).encode()
    headers = {"Authorization": f"Bearer {server.facts['token']}", "Content-Type": "application/json"}
    left = iter(range(count))
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls), headers=headers) as session:

        async def create() -> None:
            for _ in left:
                status = HTTPStatus.CONFLICT
                while status == HTTPStatus.CONFLICT:
                    async with session.post(url, data=body) as answer:
                        status = HTTPStatus(answer.status)
                        await answer.read()
                if status != HTTPStatus.CREATED:
                    raise RuntimeError(f"POST {EVENTS}: {status}")

        await asyncio.gather(*(create() for _ in range(CONNECTIONS)))


def _list(server: ApiServer) -> tuple[float, int]:
    """Return the seconds until the whole list is here, and its size in bytes."""
    url = urllib.parse.urlparse(server.facts["url"])
    context = ssl.create_default_context(cafile=server.facts["caFile"])
    connection = http.client.HTTPSConnection(url.hostname or "", url.port, context=context, timeout=60)
    with contextlib.closing(connection):
        connection.connect()
        begun = time.monotonic()
        connection.request("GET", EVENTS, headers={"Authorization": f"Bearer {server.facts['token']}"})
        answer = connection.getresponse()
        size = len(answer.read())
        if answer.status != 200:
            raise RuntimeError(f"list: {answer.status}")
        return time.monotonic() - begun, size
