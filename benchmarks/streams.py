"""kubectl through API server, agent and runtime: exec, a long log, its followers, and forwarded bytes."""

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
from benchmarks.machine import kubectl
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
    Figure("exec", "exec of true by kubectl, median", "s", at_most=0.15),
    Figure("kubectl", "kubectl alone: telling its version, median", "s"),
    Figure("log", "log of 200 MB by kubectl, into a pipe", "MB/s", at_least=100),
    Figure("log_discarded", "the same into /dev/null", "MB/s"),
    Figure("log_raw", "the same by a plain client", "MB/s"),
    Figure("agent_growth", "memory that the agent gains meanwhile", "MiB", at_most=20),
    Figure("server_growth", "memory that the API server gains meanwhile", "MiB", at_most=20),
    Figure("followers", "100 followers get a line: the last after the first", "s", at_most=1),
    Figure("forward", "forwarded port by kubectl", "MB/s", at_least=200),
)


def run() -> dict[str, float]:
    with started_node(with_api=True, streams=True, containerLogMaxSize="1Gi") as node, Client(node.server) as client:
        client.create_pod(simple_pod(POD, _WRITE, nodeName=node.agent.node))
        wait_until(lambda: "end" in _kubectl(node, "logs", "--tail=1", POD), "the log is written", 170, every=2)
        found = {"exec": statistics.median(_timed(node, "exec", POD, "--", "true") for _ in range(EXECS))}
        found["kubectl"] = statistics.median(_timed(node, "version", "--client") for _ in range(EXECS))
        agent, server = node.agent.rss_mib(), node.server.rss_mib()
        found["log"] = LOG_BYTES / 1e6 / _timed_log(node)
        found["log_discarded"] = LOG_BYTES / 1e6 / _timed(node, "logs", POD)
        found["log_raw"] = LOG_BYTES / 1e6 / _timed_raw_log(node)
        found["agent_growth"] = max(0.0, node.agent.rss_mib() - agent)
        found["server_growth"] = max(0.0, node.server.rss_mib() - server)
        found["followers"] = _followers(node)
        found["forward"] = _forward(node)
        return found


def _kubectl(node: Node, *arguments: str) -> str:
    return subprocess.run(
        [kubectl(), *arguments], capture_output=True, text=True, timeout=120, check=False, env=_environment(node)
    ).stdout


def _environment(node: Node) -> dict[str, str]:
    return {**os.environ, "KUBECONFIG": node.server.facts["kubeconfig"], "HOME": str(node.directory)}


def _timed(node: Node, *arguments: str) -> float:
    begun = time.monotonic()
    subprocess.run([kubectl(), *arguments], check=True, stdout=subprocess.DEVNULL, env=_environment(node))
    return time.monotonic() - begun


def _timed_log(node: Node) -> float:
    begun = time.monotonic()
    command = [kubectl(), "logs", POD]
    with subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0, env=_environment(node)) as reader:
        output, size = reader.stdout, 0
        assert output is not None
        while data := output.read(1 << 20):
            size += len(data)
    assert size >= LOG_BYTES, f"only {size} bytes of log"
    return time.monotonic() - begun


def _timed_raw_log(node: Node) -> float:
    begun, size = time.monotonic(), 0
    connection = _ask(node, f"/api/v1/namespaces/default/pods/{POD}/log")
    while data := connection.recv(1 << 18):
        size += len(data)
        if data.endswith(b"0\r\n\r\n"):
            break
    connection.close()
    assert size >= LOG_BYTES, f"only {size} bytes of log"
    return time.monotonic() - begun


def _ask(node: Node, path: str) -> ssl.SSLSocket:
    """Return a connection on which *path* was asked for."""
    url = urllib.parse.urlsplit(node.server.facts["url"])
    context = ssl.create_default_context(cafile=node.server.facts["caFile"])
    plain = socket.create_connection((url.hostname or "", url.port or 0), timeout=60)
    connection = context.wrap_socket(plain, server_hostname=url.hostname)
    connection.sendall(
        f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {node.server.facts['token']}\r\n\r\n".encode()
    )
    return connection


def _followers(node: Node) -> float:
    """Return how long after the first of many followers the last has a new line."""
    path = f"/api/v1/namespaces/default/pods/{POD}/log?follow=true&tailLines=1"
    connections = [_ask(node, path) for _ in range(FOLLOWERS)]
    got: list[float] = []

    def follow(connection: ssl.SSLSocket, until: bytes, note: list[float]) -> None:
        data = b""
        while until not in data:
            data = data[-100:] + connection.recv(1 << 16)
        note.append(time.monotonic())

    for connection in connections:
        follow(connection, b"end\n", [])
    threads = [threading.Thread(target=follow, args=(item, b"news\n", got)) for item in connections]
    for thread in threads:
        thread.start()
    _kubectl(node, "exec", POD, "--", "sh", "-c", "echo news > /proc/1/fd/1")
    for thread in threads:
        thread.join(60)
    assert len(got) == FOLLOWERS, f"only {len(got)} followers got the line"
    for connection in connections:
        connection.close()
    return max(got) - min(got)


def _forward(node: Node) -> float:
    """Return the speed of a forwarded port in MB/s."""
    port = free_port()
    command = [kubectl(), "port-forward", f"pod/{POD}", f"{port}:8000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=_environment(node)) as forwarding:
        assert forwarding.stdout is not None
        forwarding.stdout.readline()
        with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
            size = len(client.recv(1 << 18))
            begun = time.monotonic()
            while size < FORWARDED_BYTES and (data := client.recv(1 << 20)):
                size += len(data)
            seconds = time.monotonic() - begun
        forwarding.terminate()
    assert size >= FORWARDED_BYTES, f"only {size} bytes came through"
    return size / 1e6 / seconds
