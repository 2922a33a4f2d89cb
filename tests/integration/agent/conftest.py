"""Fixtures: a node with containerd, the bundled API server and the agent."""

from __future__ import annotations

import contextlib
import http.client
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.integration.containerd import Containerd
from tests.integration.programs import ApiServer, NodeAgent, wait_until
from tests.integration.reference import new_api_server


@dataclass
class Node:
    """Components of a node, and helpers to inspect it."""

    runtime: Containerd
    api: ApiServer
    agent: NodeAgent

    def phase(self, name: str, phase: str, seconds: float = 30.0) -> Any:
        """Wait until the pod has *phase* in the API, and return it."""

        def there() -> Any:
            pod = self.api.pod(name)
            return pod if pod and pod.get("status", {}).get("phase") == phase else None

        try:
            return wait_until(there, f"pod {name} is {phase}", seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.api.pod(name)}\n{self.agent.tail()}") from None

    def until(self, name: str, condition: Callable[[Any], Any], what: str, seconds: float = 30.0) -> Any:
        """Wait until *condition* is true for the pod, and return it."""

        def there() -> Any:
            pod = self.api.pod(name)
            return pod if pod and condition(pod) else None

        try:
            return wait_until(there, what, seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.api.pod(name)}\n{self.agent.tail()}") from None

    def gone(self, name: str, seconds: float = 30.0) -> None:
        """Wait until the pod is deleted in the API."""
        try:
            wait_until(lambda: self.api.pod(name) is None, f"pod {name} is gone", seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.api.pod(name)}\n{self.agent.tail()}") from None

    def remove(self, *names: str) -> None:
        """Delete pods and wait until they are deleted."""
        for name in names:
            self.api.delete_pod(name, grace=1)
        for name in names:
            self.gone(name)

    def log(self, pod: Any, container: str = "main") -> str:
        """Return the output of a container."""
        meta = pod["metadata"]
        annotations = meta.get("annotations", {})
        uid = annotations.get("kubernetes.io/config.hash", meta["uid"])
        directory = self.agent.logs / "pods" / f"{meta['namespace']}_{meta['name']}_{uid}" / container
        lines = [line for file in sorted(directory.glob("*.log")) for line in file.read_text().splitlines()]
        return "\n".join(line.split(" ", 3)[3] for line in lines)

    def listings(self) -> int:
        """Return how often the agent has listed the runtime."""
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # The certificate is self-signed.
        connection = http.client.HTTPSConnection("127.0.0.1", self.agent.port, context=context, timeout=20)
        with contextlib.closing(connection):
            connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {self.api.facts['token']}"})
            lines = connection.getresponse().read().decode().splitlines()
        return next(int(float(line.split()[1])) for line in lines if "pleg_relist_duration_seconds_count" in line)

    def reasons(self, name: str) -> set[str]:
        """Return the reasons of the events about a pod."""
        return {event["reason"] for event in self.api.events(name)}


@pytest.fixture(scope="module")
def node(containerd: Containerd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """Running node; a test removes the pods that it created."""
    directory = tmp_path_factory.mktemp("node")
    api = new_api_server(directory)
    agent = NodeAgent(directory, containerd.endpoint, api)
    built = Node(containerd, api, agent)
    try:
        api.start()
        agent.start()
        wait_until(lambda: _ready(api), "the node is Ready")
        yield built
    finally:
        agent.stop()
        api.stop()
        containerd.remove_pods()


@pytest.fixture
def own(containerd: Containerd, tmp_path: Path) -> Iterator[Node]:
    """Node for one test, which breaks or reconfigures it."""
    api = new_api_server(tmp_path)
    agent = NodeAgent(tmp_path, containerd.endpoint, api)
    try:
        api.start()
        agent.start()
        yield Node(containerd, api, agent)
    finally:
        agent.kill()
        api.stop()
        containerd.remove_pods()


def _ready(api: ApiServer) -> bool:
    node = api.get("/api/v1/nodes/node-1")
    if node["kind"] != "Node":
        return False
    conditions = node.get("status", {}).get("conditions") or ()
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
