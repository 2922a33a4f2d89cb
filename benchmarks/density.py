"""110, 250 and 500 API pods on a fake runtime in a separate process: agent CPU, memory and latency of status updates.

Each pod has a ConfigMap, a Secret and a projected service account token. The idle agent is measured without probes, and
again after all pods were replaced by pods with a readiness and a liveness probe every ten seconds, the default period.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import grpc

from benchmarks.api import Client, PodWatch
from benchmarks.figures import Figure, percentile
from benchmarks.node import (
    CLUSTER_DNS,
    LIMIT_SECONDS,
    SETTLE_SECONDS,
    Executables,
    bench_pod,
    idle_percent,
    quick_directory,
    stop,
)
from nodeagent.base.criproto import api_pb2 as cri
from nodeagent.testing.cri import RuntimeHandle, started_runtime
from tests.integration.programs import ApiServer, NodeAgent, wait_until

COUNTS = (110, 250, 500)
IDLE_GOALS = {250: 0.6, 500: 1.0}
QUIET_SECONDS = 70.0
"""Time until the work after the start of all pods is done: their events are sent at ``eventRecordQPS``."""
SHARED = 10
"""Number of pods that use the same ConfigMap and Secret."""
LATENCY_PODS = 40
LATENCY_SECONDS = 0.05
_NAMESPACE = "/api/v1/namespaces/default"


def _figures(count: int) -> tuple[Figure, ...]:
    return (
        Figure(f"running_{count}", f"{count} pods: all Running", "s"),
        Figure(f"start_cpu_{count}", f"{count} pods: agent CPU per pod until all are Running", "ms"),
        Figure(f"calls_{count}", f"{count} pods: calls of the runtime per pod until then", ""),
        Figure(f"idle_{count}", f"{count} pods: idle agent", "% of a core", at_most=IDLE_GOALS.get(count)),
        Figure(f"rss_{count}", f"{count} pods: agent memory (RSS)", "MiB"),
        Figure(f"status_p50_{count}", f"{count} pods: one more, creation until Running, median", "ms"),
        Figure(f"status_p99_{count}", f"{count} pods: one more, creation until Running, p99", "ms"),
        Figure(f"probed_{count}", f"{count} pods with two probes every 10 s: idle agent", "% of a core"),
        Figure(f"stop_cpu_{count}", f"{count} pods: agent CPU per pod until all are deleted", "ms"),
    )


FIGURES = tuple(figure for count in COUNTS for figure in _figures(count))


def run() -> dict[str, float]:
    result: dict[str, float] = {}
    for count in COUNTS:
        result |= measure(count)
    return result


def measure(count: int) -> dict[str, float]:
    """Return the figures of a node with *count* pods."""
    with (
        _started_node() as (agent, server, runtime),
        _probe_target() as port,
        PodWatch(server) as watch,
        Client(server) as client,
    ):
        _create_objects(client, count)
        time.sleep(SETTLE_SECONDS)
        pods = [f"bench-{number:03d}" for number in range(count)]
        result = _start(client, watch, agent, runtime, [_pod(agent, name, number) for number, name in enumerate(pods)])
        time.sleep(QUIET_SECONDS)
        result["idle"] = idle_percent(agent)
        result["rss"] = agent.rss_mib()
        with Client(server) as later:  # The server may have closed the idle connection.
            result |= _latency(later, watch, agent)
            result["stop_cpu"] = _remove(later, watch, agent, pods) / count
            probed = [f"probed-{number:03d}" for number in range(count)]
            made = [_pod(agent, name, number, _probes(port)) for number, name in enumerate(probed)]
            _start(later, watch, agent, runtime, made)
        time.sleep(QUIET_SECONDS)
        result["probed"] = idle_percent(agent)
    return {f"{key}_{count}": value for key, value in result.items()}


@contextlib.contextmanager
def _started_node() -> Iterator[tuple[NodeAgent, ApiServer, RuntimeHandle]]:
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(quick_directory())
        runtime = stack.enter_context(started_runtime(directory))
        server = Executables.new_server(Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="benchmark-"))))
        stack.callback(stop, server)
        server.start()
        agent = Executables.new_agent(directory, runtime.endpoint, server, directory / "log")
        stack.callback(stop, agent)
        agent.start(maxPods=max(COUNTS) + 10, clusterDNS=[CLUSTER_DNS])
        with Client(server) as client:
            wait_until(lambda: client.node_ready(agent.node), "the node is ready")
        yield agent, server, runtime


def _create_objects(client: Client, count: int) -> None:
    for number in range(-(-count // SHARED)):
        name = {"metadata": {"name": f"settings-{number}"}}
        client.request("POST", f"{_NAMESPACE}/configmaps", {**name, "data": {"settings": "value " * 20}})
        client.request("POST", f"{_NAMESPACE}/secrets", {**name, "stringData": {"password": "secret"}})


def _pod(agent: NodeAgent, name: str, number: int, probes: dict[str, Any] | None = None) -> dict[str, Any]:
    shared = f"settings-{number // SHARED}"
    pod = bench_pod(name, nodeName=agent.node)
    token = {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}}
    pod["spec"]["volumes"] = [
        {"name": "config", "configMap": {"name": shared}},
        {"name": "secret", "secret": {"secretName": shared}},
        {"name": "token", "projected": {"sources": [token]}},
    ]
    mounts = [{"name": volume["name"], "mountPath": f"/data/{volume['name']}"} for volume in pod["spec"]["volumes"]]
    pod["spec"]["containers"][0] |= {"volumeMounts": mounts, **(probes or {})}
    return pod


def _probes(port: int) -> dict[str, Any]:
    probe = {"httpGet": {"host": "127.0.0.1", "port": port, "path": "/"}}
    return {"readinessProbe": probe, "livenessProbe": probe}


def _start(
    client: Client, watch: PodWatch, agent: NodeAgent, runtime: RuntimeHandle, pods: Sequence[Any]
) -> dict[str, float]:
    cpu, calls, started = agent.cpu_seconds(), runtime_calls(runtime), time.monotonic()
    names = [pod["metadata"]["name"] for pod in pods]
    for pod in pods:
        client.create_pod(pod)
    watch.wait_running(names, LIMIT_SECONDS)
    return {
        "running": max(watch.running_at[name] for name in names) - started,
        "start_cpu": 1000 * (agent.cpu_seconds() - cpu) / len(pods),
        "calls": (runtime_calls(runtime) - calls) / len(pods),
    }


def _latency(client: Client, watch: PodWatch, agent: NodeAgent) -> dict[str, float]:
    """Return the time until single pods run; on a fake runtime this is the time of agent and API server."""
    waits = []
    names = [f"single-{number:02d}" for number in range(LATENCY_PODS)]
    for name in names:
        started = time.monotonic()
        client.create_pod(_pod(agent, name, 0))
        watch.wait_running([name], LIMIT_SECONDS)
        waits.append(1000 * (watch.running_at[name] - started))
        client.delete_pod(name)
        time.sleep(LATENCY_SECONDS)
    watch.wait_deleted(names, LIMIT_SECONDS)
    return {"status_p50": percentile(waits, 0.5), "status_p99": percentile(waits, 0.99)}


def _remove(client: Client, watch: PodWatch, agent: NodeAgent, pods: Sequence[str]) -> float:
    """Delete pods and return the CPU time of the agent in milliseconds."""
    cpu = agent.cpu_seconds()
    for name in pods:
        client.delete_pod(name)
    watch.wait_deleted(pods, LIMIT_SECONDS)
    return 1000 * (agent.cpu_seconds() - cpu)


def runtime_calls(runtime: RuntimeHandle) -> int:
    """Return the number of calls that the fake runtime has received."""
    with grpc.insecure_channel(runtime.endpoint) as channel:
        status = channel.unary_unary(
            "/runtime.v1.RuntimeService/Status", cri.StatusRequest.SerializeToString, cri.StatusResponse.FromString
        )
        return sum(json.loads(status(cri.StatusRequest(verbose=True), timeout=10).info["calls"]).values())


@contextlib.contextmanager
def _probe_target() -> Iterator[int]:
    """Serve responses to probes and return the port."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None: ...

    class Server(http.server.ThreadingHTTPServer):
        request_queue_size = 256

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()
