"""Hollow nodes against the API server: 100 nodes with 30 pods each, on SQLite and on etcd.

The nodes register, renew leases, report their status, and send pod status updates and events; 10 % of the pods are
replaced per minute. ``python -m benchmarks.fleet`` measures other numbers of nodes, one store, or kube-apiserver.
The nodes use the cores of the same host: a server on a separate host is loaded later.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import secrets
import ssl
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks import fleet_results
from benchmarks.figures import Figure, percentile, shown
from benchmarks.host import load
from benchmarks.node import quick_directory, stop
from benchmarks.request_latency import percentiles, read_requests
from tests.integration.programs import (
    IMAGE,
    ApiServer,
    Program,
    cpu_seconds,
    free_port,
    rss_mib,
    unmount_below,
    wait_until,
)
from tests.integration.reference import ReferenceApiServer

NODES = 100
PODS_PER_NODE = 30
REPLACED_PER_MINUTE = 0.1
NODES_PER_PROCESS = 50
MEASURED_SECONDS = 60.0
SETTLE_SECONDS = 15.0
LIMIT_SECONDS = 600.0
CONNECTIONS = 8
LAG_SECONDS = 0.2
STORES = ("sqlite", "etcd")
SERVERS = {"sqlite": "API server with SQLite", "etcd": "API server with etcd"}
REFERENCE = "kube-apiserver with etcd"
VERBS = ("POST", "PATCH", "DELETE", "PUT")
"""The agents watch and do not get or list."""
_PODS = "/api/v1/namespaces/default/pods"
_LAG = "/api/v1/namespaces/default/configmaps/lag"


def figures(stores: tuple[str, ...]) -> tuple[Figure, ...]:
    return tuple(
        Figure(f"{store}_{key}", f"{store}: {title}", unit)
        for store in stores
        for key, title, unit in (
            ("running", "time until all pods are Running", "s"),
            ("requests", "requests without watches", "1/s"),
            *((f"p99_{verb}", f"{verb}, p99", "ms") for verb in VERBS),
            ("lag_p50", "watch lag, median", "ms"),
            ("lag_p99", "watch lag, p99", "ms"),
            ("replaced_p99", "replaced pod, creation until Running, p99", "ms"),
            ("cpu", "server and store CPU", "% of a core"),
            ("cpu_node", "server and store CPU per node", "% of a core"),
            ("rss", "server memory (RSS)", "MiB"),
            ("store_rss", "memory (RSS) of its store, if it is another process", "MiB"),
            ("nodes_cpu", "CPU of the nodes", "% of a core"),
            ("nodes_lag", "longest delay in a process with nodes", "ms"),
            ("not_ready", "nodes that are not Ready at the end", ""),
        )
    )


FIGURES = figures(STORES)


def run() -> dict[str, float]:
    result: dict[str, float] = {}
    for store in STORES:
        result |= measure(store, NODES)
    return result


def measure(store: str, nodes: int, kube_apiserver: Path | None = None) -> dict[str, float]:
    """Return the figures of *nodes* nodes on one store."""
    names = [f"hollow-{number:04d}" for number in range(nodes)]
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="benchmark-")))
        tokens = {name: secrets.token_hex(16) for name in names}
        server = _server(stack, directory, store, tokens, kube_apiserver)
        processes = [
            stack.enter_context(_hollow_nodes(server, {name: tokens[name] for name in names[first : first + size]}))
            for size in [NODES_PER_PROCESS]
            for first in range(0, nodes, size)
        ]
        wait_until(lambda: _ready(server) == nodes, f"{nodes} nodes are Ready", LIMIT_SECONDS, every=1.0)
        result = asyncio.run(_Load(server, names, processes).run())
        result["not_ready"] = nodes - _ready(server)
    return {f"{store}_{key}": value for key, value in result.items()}


def _server(
    stack: contextlib.ExitStack, directory: Path, store: str, tokens: dict[str, str], kube_apiserver: Path | None
) -> ApiServer:
    lines = "".join(f'{token},system:node:{name},{name},"system:nodes"\n' for name, token in tokens.items())
    if kube_apiserver is not None:
        reference = _Reference(directory, kube_apiserver, lines)
        stack.callback(stop, reference)
        reference.start()
        return reference
    file = directory / "nodes.csv"
    file.write_text(lines)
    options = [f"--token-auth-file={file}"]
    server = _WithStore(directory)
    if store == "etcd":
        etcd = stack.enter_context(_etcd(directory))
        options += ["--storage-backend=etcd3", f"--store-servers={etcd[0]}"]
        server.store = etcd[1]
    stack.callback(stop, server)
    server.start(*options)
    return server


class _WithStore(ApiServer):
    """API server whose CPU time includes that of its store."""

    store: subprocess.Popen[bytes] | None = None

    def store_rss_mib(self) -> float:
        return rss_mib(self.store.pid) if self.store is not None else 0.0

    def cpu_seconds(self) -> float:
        return super().cpu_seconds() + (cpu_seconds(self.store.pid) if self.store is not None else 0.0)


class _Reference(ReferenceApiServer):
    """kube-apiserver that accepts the tokens of the nodes."""

    def __init__(self, directory: Path, executable: Path, tokens: str) -> None:
        super().__init__(directory, executable)
        self._tokens = tokens

    def _prepare(self) -> None:
        super()._prepare()
        with (self.data / "tokens.csv").open("a") as file:
            file.write(self._tokens)


@contextlib.contextmanager
def _etcd(directory: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
    command = ["etcd", f"--data-dir={directory / 'etcd'}", f"--listen-client-urls={client}"]
    command += [f"--advertise-client-urls={client}", f"--listen-peer-urls={peer}", "--log-level=error"]
    command += [f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=default={peer}"]
    with (directory / "etcd.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield client, process
    finally:
        process.terminate()
        process.wait()


@contextlib.contextmanager
def _hollow_nodes(server: ApiServer, tokens: dict[str, str]) -> Iterator[Program]:
    with quick_directory() as directory:
        (directory / "tokens.json").write_text(json.dumps(tokens))
        program = Program("hollow-nodes", directory)
        access = ["--server", server.facts["url"], "--ca-file", server.facts["caFile"]]
        files = ["--tokens", str(directory / "tokens.json"), "--report", str(directory / "report.json")]
        program.launch("benchmarks.hollow_nodes", *access, *files, "--directory", str(directory / "nodes"))
        try:
            yield program
        finally:
            stop(program)
            unmount_below(directory)


def _ready(server: ApiServer) -> int:
    items = server.get("/api/v1/nodes")["items"]
    return sum(
        any(c["type"] == "Ready" and c["status"] == "True" for c in item["status"].get("conditions", ()))
        for item in items
    )


class _Load:
    """Pods of the nodes, their replacement, and a watch whose lag is measured."""

    def __init__(self, server: ApiServer, nodes: list[str], processes: list[Program]) -> None:
        self._server, self._nodes, self._processes = server, nodes, processes
        self._pods = [(node, f"{node}-{number}") for number in range(PODS_PER_NODE) for node in nodes]
        self._created: dict[str, float] = {}
        self._waits: list[float] = []
        self._lags: list[float] = []
        self._running: set[str] = set()
        self._complete = asyncio.Event()

    async def run(self) -> dict[str, float]:
        server = self._server
        headers = {"Authorization": f"Bearer {server.facts['token']}"}
        connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=server.facts["caFile"]), limit=0)
        async with aiohttp.ClientSession(
            server.facts["url"], connector=connector, headers=headers, timeout=aiohttp.ClientTimeout(total=None)
        ) as session:
            self._session = session
            await self._request("POST", _LAG.rpartition("/")[0], {"metadata": {"name": "lag"}})
            watches = [asyncio.create_task(self._watch_pods()), asyncio.create_task(self._watch_lag())]
            await asyncio.sleep(1.0)
            try:
                started = time.monotonic()
                await self._create_all()
                async with asyncio.timeout(LIMIT_SECONDS):
                    await self._complete.wait()
                result = {"running": time.monotonic() - started}
                await asyncio.sleep(SETTLE_SECONDS)
                return result | await self._measure()
            finally:
                for task in watches:
                    task.cancel()
                await asyncio.gather(*watches, return_exceptions=True)

    async def _measure(self) -> dict[str, float]:
        server = self._server
        before, cpu, started = read_requests(server), server.cpu_seconds(), time.monotonic()
        nodes_cpu = sum(process.cpu_seconds() for process in self._processes)
        self._waits.clear()
        changes = asyncio.create_task(self._change())
        longest = 0.0
        try:
            await self._replace()
            longest = max(self._delay(process) for process in self._processes)
        finally:
            changes.cancel()
        seconds = time.monotonic() - started
        requests = read_requests(server) - before
        cpu_percent = 100 * (server.cpu_seconds() - cpu) / seconds
        nodes_percent = 100 * (sum(process.cpu_seconds() for process in self._processes) - nodes_cpu) / seconds
        p99 = percentiles(requests, 0.99)
        return {
            "requests": requests.total() / seconds,
            **{f"p99_{verb}": 1000 * p99[verb] for verb in VERBS if verb in p99},
            "lag_p50": percentile(self._lags, 0.5),
            "lag_p99": percentile(self._lags, 0.99),
            "replaced_p99": percentile(self._waits, 0.99),
            "cpu": cpu_percent,
            "cpu_node": cpu_percent / len(self._nodes),
            "rss": server.rss_mib(),
            "store_rss": server.store_rss_mib(),
            "nodes_cpu": nodes_percent,
            "nodes_lag": 1000 * longest,
        }

    async def _create_all(self) -> None:
        left = iter(self._pods)

        async def create() -> None:
            for node, name in left:
                await self._create(node, name)

        await asyncio.gather(*(create() for _ in range(CONNECTIONS)))

    async def _create(self, node: str, name: str) -> None:
        resources = {"requests": {"cpu": "1m", "memory": "4Mi"}}
        spec: dict[str, Any] = {
            "nodeName": node,
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": False,
            "containers": [{"name": "main", "image": IMAGE, "resources": resources}],
        }
        self._created[name] = time.monotonic()
        await self._request("POST", _PODS, {"metadata": {"name": name}, "spec": spec})

    async def _replace(self) -> None:
        """Replace pods at a constant rate."""
        rate = len(self._pods) * REPLACED_PER_MINUTE / 60
        started = time.monotonic()
        async with asyncio.TaskGroup() as tasks:
            for number in range(int(rate * MEASURED_SECONDS)):
                await asyncio.sleep(max(0.0, started + number / rate - time.monotonic()))
                tasks.create_task(self._replace_one(number))
            await asyncio.sleep(max(0.0, started + MEASURED_SECONDS - time.monotonic()))

    async def _replace_one(self, number: int) -> None:
        node, name = self._pods[number % len(self._pods)]
        await self._request("DELETE", f"{_PODS}/{name}")
        new = f"{node}-{number + len(self._pods)}-r"
        await self._create(node, new)
        self._pods[number % len(self._pods)] = (node, new)

    async def _change(self) -> None:
        """Change an object regularly; its watch measures the lag."""
        while True:
            await asyncio.sleep(LAG_SECONDS)
            await self._request("PATCH", _LAG, {"data": {"sent": repr(time.monotonic())}})

    async def _watch_lag(self) -> None:
        path = f"{_LAG.rpartition('/')[0]}?watch=1&fieldSelector=metadata.name%3Dlag"
        async for event in self._events(path):
            if sent := event["object"].get("data", {}).get("sent"):
                self._lags.append(1000 * (time.monotonic() - float(sent)))

    async def _watch_pods(self) -> None:
        async for event in self._events(f"{_PODS}?watch=1"):
            item = event["object"]
            name = item["metadata"]["name"]
            if item.get("status", {}).get("phase") == "Running" and name not in self._running:
                self._running.add(name)
                if len(self._running) == len(self._pods):
                    self._complete.set()
                self._waits.append(1000 * (time.monotonic() - self._created[name]))

    async def _events(self, path: str) -> Any:
        async with self._session.get(path) as response:
            response.raise_for_status()
            rest = b""
            async for chunk in response.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    yield json.loads(line)

    async def _request(self, method: str, path: str, body: Any = None) -> None:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        data = None if body is None else json.dumps(body)
        async with self._session.request(method, path, data=data, headers={"Content-Type": kind}) as response:
            if response.status >= 400:
                raise RuntimeError(f"{method} {path}: {response.status} {(await response.text())[:300]}")
            await response.read()

    def _delay(self, process: Program) -> float:
        try:
            return float(json.loads((process.directory / "report.json").read_text())["lag"])
        except (OSError, ValueError):
            return 0.0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fleet", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[NODES], metavar="N", help="numbers of nodes")
    parser.add_argument("--store", choices=STORES, nargs="+", default=STORES, help="stores of the API server")
    parser.add_argument("--kube-apiserver", type=Path, metavar="FILE", help="executable of kube-apiserver, with etcd")
    parser.add_argument("--record", action="store_true", help="store the results in benchmarks/history/fleet.json")
    options = parser.parse_args()
    for nodes in options.nodes:
        for store in ["etcd"] if options.kube_apiserver else options.store:
            server = REFERENCE if options.kube_apiserver else SERVERS[store]
            print(f"\n{nodes} nodes, {server}, load before {load():.2f}", flush=True)
            result = measure(store, nodes, options.kube_apiserver)
            if options.record:
                fleet_results.store(server, nodes, {k.removeprefix(f"{store}_"): v for k, v in result.items()})
            for figure in FIGURES:
                if figure.key in result:
                    print(f"  {figure.title:60} {shown(result[figure.key]):>8} {figure.unit}", flush=True)


if __name__ == "__main__":
    main()
