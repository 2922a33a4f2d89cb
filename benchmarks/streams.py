"""Streams through API server, agent and runtime: exec, a large log, followed logs, port forwarding."""

from __future__ import annotations

import os
import socket
import ssl
import statistics
import subprocess
import threading
import time
import urllib.parse

from benchmarks.api import Client
from benchmarks.figures import Figure
from benchmarks.host import kubectl
from benchmarks.node import Node, started_node
from tests.integration.programs import free_port, simple_pod, wait_until

LINE = "x" * 199
LOG_BYTES = 200_000_000
EXECS = 20
FOLLOWERS = 100
FORWARDED_BYTES = 400_000_000
POD = "bench-streams"
_WRITE = f"yes {LINE} | head -n {LOG_BYTES // 200}; echo end; while :; do nc -l -p 8000 < /dev/zero; done"

FIGURES = (
    Figure("exec", "kubectl exec of true, median", "s", at_most=0.15),
    Figure("kubectl", "kubectl version --client, median", "s"),
    Figure("log", "kubectl logs, 200 MB, to a pipe", "MB/s", at_least=100),
    Figure("log_discarded", "kubectl logs, 200 MB, to /dev/null", "MB/s"),
    Figure("log_raw", "log of 200 MB, plain HTTP client", "MB/s"),
    Figure("agent_growth", "growth of agent memory during the logs", "MiB", at_most=20),
    Figure("server_growth", "growth of API server memory during the logs", "MiB", at_most=20),
    Figure("followers", "new line for 100 followers: first to last", "s", at_most=1),
    Figure("forward", "kubectl port-forward", "MB/s", at_least=200),
)


def run() -> dict[str, float]:
    with started_node(with_api=True, streams=True, containerLogMaxSize="1Gi") as node, Client(node.server) as client:
        client.create_pod(simple_pod(POD, _WRITE, nodeName=node.agent.node))
        wait_until(lambda: "end" in _kubectl(node, "logs", "--tail=1", POD), "the log is written", 170, every=2)
        result = {"exec": statistics.median(_timed(node, "exec", POD, "--", "true") for _ in range(EXECS))}
        result["kubectl"] = statistics.median(_timed(node, "version", "--client") for _ in range(EXECS))
        agent, server = node.agent.rss_mib(), node.server.rss_mib()
        result["log"] = LOG_BYTES / 1e6 / _timed_log(node)
        result["log_discarded"] = LOG_BYTES / 1e6 / _timed(node, "logs", POD)
        result["log_raw"] = LOG_BYTES / 1e6 / _timed_raw_log(node)
        result["agent_growth"] = max(0.0, node.agent.rss_mib() - agent)
        result["server_growth"] = max(0.0, node.server.rss_mib() - server)
        result["followers"] = _followers(node)
        result["forward"] = _forward(node)
        return result


def _kubectl(node: Node, *arguments: str) -> str:
    return subprocess.run(
        [kubectl(), *arguments], capture_output=True, text=True, timeout=120, check=False, env=_environment(node)
    ).stdout


def _environment(node: Node) -> dict[str, str]:
    return {**os.environ, "KUBECONFIG": node.server.facts["kubeconfig"], "HOME": str(node.directory)}


def _timed(node: Node, *arguments: str) -> float:
    started = time.monotonic()
    subprocess.run([kubectl(), *arguments], check=True, stdout=subprocess.DEVNULL, env=_environment(node))
    return time.monotonic() - started


def _timed_log(node: Node) -> float:
    started = time.monotonic()
    command = [kubectl(), "logs", POD]
    with subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0, env=_environment(node)) as reader:
        output, size = reader.stdout, 0
        assert output is not None
        while data := output.read(1 << 20):
            size += len(data)
    assert size >= LOG_BYTES, f"only {size} bytes of log"
    return time.monotonic() - started


def _timed_raw_log(node: Node) -> float:
    started, size = time.monotonic(), 0
    connection = _request(node, f"/api/v1/namespaces/default/pods/{POD}/log")
    while data := connection.recv(1 << 18):
        size += len(data)
        if data.endswith(b"0\r\n\r\n"):
            break
    connection.close()
    assert size >= LOG_BYTES, f"only {size} bytes of log"
    return time.monotonic() - started


def _request(node: Node, path: str) -> ssl.SSLSocket:
    """Return a connection with a request for *path*."""
    url = urllib.parse.urlsplit(node.server.facts["url"])
    context = ssl.create_default_context(cafile=node.server.facts["caFile"])
    plain = socket.create_connection((url.hostname or "", url.port or 0), timeout=60)
    connection = context.wrap_socket(plain, server_hostname=url.hostname)
    connection.sendall(
        f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {node.server.facts['token']}\r\n\r\n".encode()
    )
    return connection


def _followers(node: Node) -> float:
    """Return the time from the first to the last follower that receives a new line."""
    path = f"/api/v1/namespaces/default/pods/{POD}/log?follow=true&tailLines=1"
    connections = [_request(node, path) for _ in range(FOLLOWERS)]
    times: list[float] = []

    def follow(connection: ssl.SSLSocket, until: bytes, times: list[float]) -> None:
        data = b""
        while until not in data:
            data = data[-100:] + connection.recv(1 << 16)
        times.append(time.monotonic())

    for connection in connections:
        follow(connection, b"end\n", [])
    threads = [threading.Thread(target=follow, args=(item, b"news\n", times)) for item in connections]
    for thread in threads:
        thread.start()
    _kubectl(node, "exec", POD, "--", "sh", "-c", "echo news > /proc/1/fd/1")
    for thread in threads:
        thread.join(60)
    assert len(times) == FOLLOWERS, f"only {len(times)} followers received the line"
    for connection in connections:
        connection.close()
    return max(times) - min(times)


def _forward(node: Node) -> float:
    """Return the speed of a forwarded port in MB/s."""
    port = free_port()
    command = [kubectl(), "port-forward", f"pod/{POD}", f"{port}:8000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=_environment(node)) as forwarding:
        assert forwarding.stdout is not None
        forwarding.stdout.readline()
        with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
            size = len(client.recv(1 << 18))
            started = time.monotonic()
            while size < FORWARDED_BYTES and (data := client.recv(1 << 20)):
                size += len(data)
            seconds = time.monotonic() - started
        forwarding.terminate()
    assert size >= FORWARDED_BYTES, f"only {size} bytes were received"
    return size / 1e6 / seconds
