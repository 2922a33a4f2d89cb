"""API server with the requests of 100 kubelets with 30 pods each: heartbeats, status changes and watches.

A light client replays the requests at the rates of the kubelet, so that the server is measured and not its clients.
Each node has a connection for requests and one of HTTP/2 for its watches, as the agent.
``python -m benchmarks.heartbeats`` measures other numbers of nodes.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import ssl
import statistics
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from benchmarks.api_server import started_server
from benchmarks.figures import Figure, shown
from benchmarks.host import load
from nodeagent.apiclient.http2 import Http2Connection, Http2Stream
from nodeagent.apiclient.transport import ConnectionLost
from tests.integration.programs import ApiServer

NODES, PODS_PER_NODE = 100, 30
SECONDS = 60.0
LEASE_SECONDS, NODE_STATUS_SECONDS, TOKEN_SECONDS = 10.0, 300.0, 2880.0
"""Periods of a kubelet: renewal of its lease, report of its unchanged status, refresh of the token of each pod."""
POD_STATUS_SECONDS = 60.0
"""Time between two changes of the readiness of a pod."""
_SEED = 1
_SETUP_CONNECTIONS = 16
_OPENED_AT_ONCE = 32
_WATCH = "watch=true&timeoutSeconds=600"
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
_STRATEGIC = "application/strategic-merge-patch+json"
_LIMIT_SECONDS = 30.0
_LEASE: dict[str, Any] = {}
"""Body of a request that renews the lease."""

FIGURES = (
    Figure("rate", f"{NODES} nodes with {PODS_PER_NODE} pods each: requests", "1/s"),
    Figure("p50", "duration of a request, median", "ms"),
    Figure("p99", "p99", "ms", at_most=100),
    Figure("maximum", "maximum", "ms"),
    Figure("events", "changes delivered to watches", "1/s"),
    Figure("missed", "changes of pods that were not delivered", "", at_most=0),
    Figure("failed", "failed requests", "", at_most=0),
    Figure("cpu", "server CPU, with its store", "% of a core"),
    Figure("rss", "server memory (RSS)", "MiB"),
    Figure("store_rss", "memory (RSS) of its store, if it is another process", "MiB"),
)


@dataclass
class Measured:
    """Durations of requests in seconds, and counts."""

    seconds: list[float] = field(default_factory=list)
    failed: int = 0
    events: int = 0
    sent: int = 0
    """Changes of pods that a watch delivers."""


class Connection:
    """One TLS connection; requests are sent one after another."""

    def __init__(self, server: ApiServer, tls: ssl.SSLContext) -> None:
        parts = urlsplit(server.facts["url"])
        self._host, self._port, self._tls = parts.hostname or "", parts.port or 0, tls
        self._head = f"Host: {self._host}\r\nAuthorization: Bearer {server.facts['token']}\r\n"
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def open(self) -> None:
        self._reader, self._writer = await asyncio.open_connection(self._host, self._port, ssl=self._tls, limit=1 << 20)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.transport.abort()

    async def request(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json"
    ) -> tuple[int, bytes]:
        """Send a request and return the status code and the body of its response."""
        code, headers = await self._begin(method, path, body, content_type)
        assert self._reader is not None
        if "content-length" in headers:
            return code, await self._reader.readexactly(int(headers["content-length"]))
        return code, b"".join([piece async for piece in self._chunks()])

    async def _begin(
        self, method: str, path: str, body: Any = None, content_type: str = ""
    ) -> tuple[int, dict[str, str]]:
        if self._writer is None or self._reader is None:
            await self.open()
        assert self._writer is not None and self._reader is not None
        data = b"" if body is None else json.dumps(body).encode()
        entity = f"Content-Type: {content_type}\r\nContent-Length: {len(data)}\r\n" if data else ""
        self._writer.write(f"{method} {path} HTTP/1.1\r\n{self._head}{entity}\r\n".encode() + data)
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode()
        line, *fields = head.rstrip().split("\r\n")
        return int(line.split(" ")[1]), {k.lower(): v for k, _, v in (item.partition(": ") for item in fields)}

    async def _chunks(self) -> AsyncIterator[bytes]:
        assert self._reader is not None
        while size := int(await self._reader.readuntil(b"\r\n"), 16):
            yield (await self._reader.readexactly(size + 2))[:-2]
        await self._reader.readexactly(2)


def run(count: int = NODES) -> dict[str, float]:
    with started_server() as server:
        return asyncio.run(_measure(server, count))


async def _measure(server: ApiServer, count: int) -> dict[str, float]:
    tls, shared_tls = (ssl.create_default_context(cafile=server.facts["caFile"]) for _ in range(2))
    shared_tls.set_alpn_protocols(["h2"])
    await _set_up(server, tls, count)
    measured = Measured()
    nodes = [Connection(server, tls) for _ in range(count)]
    watches: list[Http2Connection] = []
    try:
        slots = asyncio.Semaphore(_OPENED_AT_ONCE)
        async with asyncio.TaskGroup() as tasks:
            opened = [
                tasks.create_task(_open_watches(server, shared_tls, index, watches, measured, slots))
                for index in range(count)
            ]
        watching = [task for done in opened for task in done.result()]
        await asyncio.gather(*(node.open() for node in nodes))
        await asyncio.sleep(2.0)
        measured.events = 0
        cpu, started = server.cpu_seconds(), time.monotonic()
        await asyncio.gather(*(_replay(node, index, started, measured) for index, node in enumerate(nodes)))
        elapsed = time.monotonic() - started
        cpu = server.cpu_seconds() - cpu
        with contextlib.suppress(TimeoutError):  # missing deliveries are reported as a figure
            async with asyncio.timeout(_LIMIT_SECONDS):
                while measured.events < measured.sent:  # noqa: ASYNC110 - awaited once
                    await asyncio.sleep(0.1)
    finally:
        for connection in nodes:
            connection.close()
        for shared in watches:
            shared.abort()
    for task in watching:
        task.cancel()
    await asyncio.gather(*watching, return_exceptions=True)
    durations = sorted(1000 * item for item in measured.seconds)
    return {
        "rate": len(durations) / elapsed,
        "p50": statistics.median(durations),
        "p99": durations[int(0.99 * len(durations))],
        "maximum": durations[-1],
        "events": measured.events / elapsed,
        "missed": max(0, measured.sent - measured.events),
        "failed": measured.failed,
        "cpu": 100 * cpu / elapsed,
        "rss": server.rss_mib(),
        "store_rss": server.store_rss_mib(),
    }


async def _set_up(server: ApiServer, tls: ssl.SSLContext, count: int) -> None:
    """Create the nodes, their leases and pods."""
    for path, body in (
        ("/api/v1/namespaces", {"metadata": {"name": "kube-node-lease"}}),
        ("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}}),
    ):
        server.request("POST", path, body)
    requests = iter([request for index in range(count) for request in _objects(index)])

    async def create() -> None:
        connection = Connection(server, tls)
        for method, path, body, content_type in requests:
            code, _ = await connection.request(method, path, body, content_type)
            if code >= 300:
                raise RuntimeError(f"{method} {path}: {code}")
        connection.close()

    for index in range(count):  # pods require their node
        server.request("POST", "/api/v1/nodes", {"metadata": {"name": _node(index)}})
    await asyncio.gather(*(create() for _ in range(_SETUP_CONNECTIONS)))


def _objects(index: int) -> Iterator[tuple[str, str, Any, str]]:
    node = _node(index)
    yield "PATCH", f"/api/v1/nodes/{node}/status", _node_status(), _STRATEGIC
    lease = {"metadata": {"name": node}, "spec": {"holderIdentity": node, "leaseDurationSeconds": 40}}
    yield "POST", _LEASES, lease, "application/json"
    for number in range(PODS_PER_NODE):
        container = {
            "name": "web",
            "image": "docker.io/library/nginx:1.25",
            "ports": [{"containerPort": 80}],
            "env": [{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
            "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"memory": "64Mi"}},
            "readinessProbe": {"httpGet": {"path": "/", "port": 80}},
        }
        spec = {"nodeName": node, "containers": [container]}
        metadata = {"name": _pod(index, number), "labels": {"app": f"web-{number}"}}
        yield "POST", "/api/v1/namespaces/default/pods", {"metadata": metadata, "spec": spec}, "application/json"


async def _open_watches(
    server: ApiServer,
    tls: ssl.SSLContext,
    index: int,
    watches: list[Http2Connection],
    measured: Measured,
    slots: asyncio.Semaphore,
) -> list[asyncio.Task[None]]:
    """Open the watches of a node; return once all have started."""
    parts = urlsplit(server.facts["url"])
    selected = (
        f"/api/v1/pods?fieldSelector=spec.nodeName%3D{_node(index)}&",
        f"/api/v1/nodes?fieldSelector=metadata.name%3D{_node(index)}&",
        "/api/v1/services?",
    )
    tasks = []
    async with slots, asyncio.timeout(_LIMIT_SECONDS):
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port, ssl=tls)
        watches.append(connection := Http2Connection(writer))
        await connection.take_over(reader)
        for number, path in enumerate(selected):
            headers = {"Host": parts.netloc, "Authorization": f"Bearer {server.facts['token']}"}
            stream = connection.open("GET", "https", f"{path}{_WATCH}", headers)
            if (head := await stream.head()).status != 200:
                raise RuntimeError(f"{path}: {head.status}")
            tasks.append(asyncio.create_task(_read(stream, measured if number == 0 else Measured())))
    return tasks


async def _read(stream: Http2Stream, measured: Measured) -> None:
    with contextlib.suppress(ConnectionLost):
        while data := await stream.read():
            measured.events += data.count(b'"type":"MODIFIED"')


async def _replay(connection: Connection, index: int, started: float, measured: Measured) -> None:
    """Send the requests of a node when they are due."""
    _, data = await connection.request("GET", f"{_LEASES}/{_node(index)}")
    lease = json.loads(data)
    for due, method, path, body, content_type in _schedule(index):
        await asyncio.sleep(max(0.0, started + due - time.monotonic()))
        if body is _LEASE:
            now = time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime())
            lease["spec"]["renewTime"] = now
            code, data = await connection.request(method, path, lease, content_type)
            lease = json.loads(data)
        else:
            code, _ = await connection.request(method, path, body, content_type)
        measured.seconds.append(time.monotonic() - started - due)
        measured.failed += code >= 300
        measured.sent += "/pods/" in path and method == "PATCH"


def _schedule(index: int) -> list[tuple[float, str, str, Any, str]]:
    """Return the requests of a node with the times at which they are due."""
    choice, node = random.Random(f"{_SEED}:{index}"), _node(index)
    found: list[tuple[float, str, str, Any, str]] = []

    def every(period: float, requests: list[tuple[str, str, Any, str]]) -> None:
        due = choice.uniform(0, period)
        while due < SECONDS:
            found.extend((due, *request) for request in requests)
            due += period

    every(LEASE_SECONDS, [("PUT", f"{_LEASES}/{node}", _LEASE, "application/json")])
    get = ("GET", f"/api/v1/nodes/{node}?resourceVersion=0", None, "")
    every(NODE_STATUS_SECONDS, [get, ("PATCH", f"/api/v1/nodes/{node}/status", _node_status(), _STRATEGIC)])
    for number in range(PODS_PER_NODE):
        path = f"/api/v1/namespaces/default/pods/{_pod(index, number)}"
        for ready in (False, True):  # each state after two periods
            patch = _pod_status(ready=ready, number=number)
            every(2 * POD_STATUS_SECONDS, [("GET", path, None, ""), ("PATCH", f"{path}/status", patch, _STRATEGIC)])
        token = {"spec": {"audiences": [], "expirationSeconds": 3607}}
        every(
            TOKEN_SECONDS,
            [("POST", "/api/v1/namespaces/default/serviceaccounts/default/token", token, "application/json")],
        )
    return sorted(found, key=lambda item: item[0])


def _node_status() -> Any:
    """Return the status of a node with the current time as its heartbeat."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    kinds = ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
    conditions = [
        {"type": kind, "status": str(kind == "Ready"), "reason": "KubeletReady", "lastHeartbeatTime": now}
        for kind in kinds
    ]
    resources = {"cpu": "4", "memory": "16Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    images = [{"names": [f"docker.io/library/image-{number}:1"], "sizeBytes": 12345678} for number in range(20)]
    return {"status": {"conditions": conditions, "capacity": resources, "allocatable": resources, "images": images}}


def _pod_status(*, ready: bool, number: int) -> Any:
    state, address = str(ready), f"10.0.{number}.7"
    conditions = [{"type": kind, "status": state} for kind in ("Ready", "ContainersReady")]
    container = {
        "name": "web",
        "ready": ready,
        "restartCount": 0,
        "image": "docker.io/library/nginx:1.25",
        "imageID": "docker.io/library/nginx@sha256:" + "a" * 64,
        "containerID": "containerd://" + "b" * 64,
        "started": True,
        "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
    }
    status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "hostIP": "192.0.2.1"}
    return {"status": {**status, "conditions": conditions, "containerStatuses": [container]}}


def _node(index: int) -> str:
    return f"hollow-{index:03d}"


def _pod(index: int, number: int) -> str:
    return f"web-{index:03d}-{number:02d}"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.heartbeats", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--nodes", type=int, nargs="+", default=[NODES], metavar="N", help="numbers of nodes")
    for count in parser.parse_args().nodes:
        print(f"\n{count} nodes, load before {load():.2f}", flush=True)
        result = run(count)
        for figure in FIGURES:
            title = figure.title.removeprefix(f"{NODES} nodes with {PODS_PER_NODE} pods each: ")
            print(f"  {title:60} {shown(result[figure.key]):>8} {figure.unit}", flush=True)


if __name__ == "__main__":
    main()
