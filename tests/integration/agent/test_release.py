"""Tests for the release that the agent follows: API server, outage, and a server that starts after the agent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.integration.programs import NodeAgent, free_port, simple_pod, wait_until

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: c
contexts: [{{name: c, context: {{cluster: c, user: u}}}}]
clusters: [{{name: c, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
users: [{{name: u, user: {{token: secret}}}}]
"""


class VersionHandler(BaseHTTPRequestHandler):
    """API server of release 1.35 that has no resources."""

    def do_GET(self) -> None:
        body = json.dumps({"gitVersion": "v1.35.1"}).encode() if self.path == "/version" else b"{}"
        self.send_response(200 if self.path == "/version" else 503)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args: object) -> None:
        pass


@contextmanager
def serving(port: int) -> Iterator[None]:
    with HTTPServer(("127.0.0.1", port), VersionHandler) as server:
        thread = Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def agent(containerd, tmp_path: Path) -> Iterator[NodeAgent]:
    """Agent without an API server."""
    started = NodeAgent(tmp_path, containerd.endpoint)
    yield started
    started.kill()
    containerd.remove_pods()


def is_healthy(agent: NodeAgent) -> bool:
    try:
        return agent.healthz()[0] == 200
    except OSError:
        return False


def selected(agent: NodeAgent) -> list[str]:
    """Return the log line of each selection."""
    return [line for line in agent.tail(10_000).splitlines() if "Selected compatibility release" in line]


def test_release_survives_an_outage_and_is_adopted_after_it(agent: NodeAgent, tmp_path: Path) -> None:
    port = free_port()
    (tmp_path / "kubeconfig").write_text(KUBECONFIG.format(port=port))
    agent.arguments = ["--kubeconfig", str(tmp_path / "kubeconfig")]
    agent.write_pod(simple_pod("static", "exec sleep 1000", hostNetwork=True))
    agent.start()
    pod_logs = agent.logs / "pods"
    wait_until(lambda: list(pod_logs.rglob("0.log")), "the static pod runs without the API server")

    with serving(port):
        wait_until(lambda: len(selected(agent)) == 2, "the agent restarts with the release of the server", 60)
        wait_until(lambda: is_healthy(agent), "the agent is healthy", 60)
    agent.stop()
    agent.start()

    first, second, third = selected(agent)
    assert 'release="1.29" origin="default until the API server responds"' in first
    assert 'release="1.35"' in second
    assert 'release="1.35" origin="last known API server"' in third
    assert [path.name for path in pod_logs.rglob("*.log")] == ["0.log"], "the container was not restarted"
