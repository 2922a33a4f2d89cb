"""API server without an agent: event creations, gets and lists over TLS with durable writes; requires ``wrk``."""

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
from benchmarks.node import Executables, stop
from tests.integration.programs import ApiServer

EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
MANY = 22_000
CONNECTIONS = 16
LOAD_SECONDS = 10
LISTS = 5
MAX_FAILED = 0.003
"""Fraction of creations that may fail: kube-apiserver rejects a generated name that already exists."""

FIGURES = (
    Figure("rss_empty", "API server memory (RSS) at startup", "MiB", "243, and etcd 43"),
    Figure("creates", "event creations", "1/s", "2196", at_least=4400),
    Figure("create_p99", "event creation, p99", "ms", "20", at_most=20),
    Figure("create_cpu", "server CPU per creation", "ms", "0.83"),
    Figure("gets", "gets of one event", "1/s", "4790", at_least=9600),
    Figure("short_lists", "lists with limit=1", "1/s", "811"),
    Figure("list", f"list of {MANY} events", "s", "0.57", at_most=0.5),
    Figure("list_mib", "size of that list", "MiB", "31"),
    Figure("rss", "API server memory (RSS) after those lists", "MiB", "423, and etcd 99", at_most=150),
    Figure("rss_load", f"API server memory (RSS) after {LOAD_SECONDS} s of creations and gets", "MiB"),
)


def event(**more: Any) -> dict[str, Any]:
    """Return an event as a node agent creates it."""
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"generateName": "bench-"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "type": "Normal",
        "reason": "Pulled",
        "action": "Pulling",
        "note": 'Container image "docker.io/library/busybox:1.36" already present on machine',  # wording: ok
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
    with tempfile.TemporaryDirectory(prefix="benchmark-") as directory:
        server = Executables.new_server(Path(directory))
        try:
            server.start()
            yield server
        finally:
            stop(server)


def run() -> dict[str, float]:
    if shutil.which("wrk") is None:
        raise RuntimeError("wrk is not installed")
    with started_server() as server:
        result = {"rss_empty": server.rss_mib()}
        one = server.request("POST", EVENTS, event(metadata={"name": "one"}))
        path = f"{EVENTS}/{one['metadata']['name']}"

        cpu = server.cpu_seconds()
        created = _load(server, "POST", EVENTS, json.dumps(event()))
        result["creates"] = created["requests"] / created["seconds"]
        result["create_p99"] = created["p99_ms"]
        result["create_cpu"] = 1000 * (server.cpu_seconds() - cpu) / created["requests"]

        gets = _load(server, "GET", path)
        result["gets"] = gets["requests"] / gets["seconds"]
        lists = _load(server, "GET", EVENTS + "?limit=1")
        result["short_lists"] = lists["requests"] / lists["seconds"]

        result["rss_load"] = server.rss_mib()
    with started_server() as server:
        asyncio.run(_fill(server, MANY))
        times, size = zip(*(_list(server) for _ in range(LISTS)), strict=True)
        return result | {"list": statistics.median(times), "list_mib": size[0] / 2**20, "rss": server.rss_mib()}


def _load(server: ApiServer, method: str, path: str, body: str = "") -> dict[str, float]:
    """Repeat a request on all connections with wrk and return its results."""
    script = Path(__file__).with_name("events.lua")
    command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{LOAD_SECONDS}", "-s", str(script), server.facts["url"] + path]
    environment = {**os.environ, "TOKEN": server.facts["token"], "METHOD": method, "BODY": body}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    if found["failed"] > MAX_FAILED * found["requests"]:
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
                    async with session.post(url, data=body) as response:
                        status = HTTPStatus(response.status)
                        await response.read()
                if status != HTTPStatus.CREATED:
                    raise RuntimeError(f"POST {EVENTS}: {status}")

        await asyncio.gather(*(create() for _ in range(CONNECTIONS)))


def _list(server: ApiServer) -> tuple[float, int]:
    """Return the seconds until the complete list has been received, and its size in bytes."""
    url = urllib.parse.urlparse(server.facts["url"])
    context = ssl.create_default_context(cafile=server.facts["caFile"])
    connection = http.client.HTTPSConnection(url.hostname or "", url.port, context=context, timeout=60)
    with contextlib.closing(connection):
        connection.connect()
        started = time.monotonic()
        connection.request("GET", EVENTS, headers={"Authorization": f"Bearer {server.facts['token']}"})
        response = connection.getresponse()
        size = len(response.read())
        if response.status != 200:
            raise RuntimeError(f"list: {response.status}")
        return time.monotonic() - started, size
