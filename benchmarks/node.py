"""Node to measure: containerd, the agent and, optionally, an API server."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from benchmarks.api import Client
from benchmarks.upstream import Kubelet, ReferenceApiServer
from nodeagent.base.criproto import api_pb2 as cri
from tests.integration.containerd import Containerd
from tests.integration.programs import ApiServer, NodeAgent, Program, simple_pod, unmount_below, wait_until

MEMORY = Path("/dev/shm")
CLUSTER_DNS = "192.0.2.53"
POD_NAME_LABEL = "io.kubernetes.pod.name"
PREFIX = "bench-"
PODS = 50
IDLE_SECONDS = 60.0
"""Period of the sync of each pod, the longest one of an idle agent."""
SETTLE_SECONDS = 5.0
LIMIT_SECONDS = 240.0


class Executables:
    """Factory of the measured processes: those of this project, or the kubelet and kube-apiserver if they are set."""

    kubelet: Path | None = None
    kube_apiserver: Path | None = None

    @classmethod
    def new_agent(cls, directory: Path, endpoint: str, api: ApiServer | None, logs: Path) -> NodeAgent:
        if cls.kubelet:
            return Kubelet(cls.kubelet, directory, endpoint, api)
        agent = NodeAgent(directory, endpoint, api)
        agent.logs = logs
        return agent

    @classmethod
    def new_server(cls, directory: Path) -> ApiServer:
        return ReferenceApiServer(directory, cls.kube_apiserver) if cls.kube_apiserver else ApiServer(directory)


@dataclass
class Node:
    """Components of a running node."""

    directory: Path
    runtime: Containerd
    agent: NodeAgent
    pods: RuntimePods
    api: ApiServer | None = None

    @property
    def server(self) -> ApiServer:
        assert self.api is not None, "this node was started without an API server"
        return self.api


class RuntimePods:
    """The measured pods as listed by the runtime."""

    def __init__(self, channel: grpc.Channel) -> None:
        service = "/runtime.v1.RuntimeService"
        self._containers = channel.unary_unary(
            f"{service}/ListContainers",
            cri.ListContainersRequest.SerializeToString,
            cri.ListContainersResponse.FromString,
        )
        self._status = channel.unary_unary(
            f"{service}/ContainerStatus",
            cri.ContainerStatusRequest.SerializeToString,
            cri.ContainerStatusResponse.FromString,
        )
        self._sandboxes = channel.unary_unary(
            f"{service}/ListPodSandbox",
            cri.ListPodSandboxRequest.SerializeToString,
            cri.ListPodSandboxResponse.FromString,
        )

    def running(self) -> set[str]:
        """Return the names of the pods with a running container."""
        items = self._containers(cri.ListContainersRequest(), timeout=30).containers
        return {c.labels[POD_NAME_LABEL] for c in items if c.state == cri.CONTAINER_RUNNING and _measured(c)}

    def start_times(self) -> list[float]:
        """Return the times at which the runtime started the containers, in seconds since the epoch."""
        items = self._containers(cri.ListContainersRequest(), timeout=30).containers
        requests = [cri.ContainerStatusRequest(container_id=item.id) for item in items if _measured(item)]
        return [self._status(request, timeout=30).status.started_at / 1e9 for request in requests]

    def present(self) -> set[str]:
        """Return the names of the pods with a sandbox in any state."""
        items = self._sandboxes(cri.ListPodSandboxRequest(), timeout=30).items
        return {s.labels[POD_NAME_LABEL] for s in items if _measured(s)}


@contextlib.contextmanager
def started_node(*, with_api: bool, streams: bool = False, python: Path | None = None, **config: Any) -> Iterator[Node]:
    """Start a node with the given configuration and wait until it is ready; it is removed afterwards.

    :param streams: configure the agent for requests of the API server.
    :param python: interpreter of the environment with the agent's plugins.
    """
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(quick_directory())
        runtime = stack.enter_context(started_runtime())
        channel = stack.enter_context(grpc.insecure_channel(runtime.endpoint))
        api = None
        if with_api:
            api = Executables.new_server(Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="benchmark-"))))
            stack.callback(stop, api)
            api.start()
        logs = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="benchmark-")))
        agent = Executables.new_agent(directory, runtime.endpoint, api, logs)
        stack.callback(stop, agent)
        if python is not None:
            agent.python = str(python)
        if streams and api is not None and Executables.kube_apiserver is None:
            agent.arguments += ["--node-ip", "127.0.0.1"]
            config["authentication"] = {"x509": {"clientCAFile": api.facts["clientCaFile"]}}
        agent.start(**{"clusterDNS": [CLUSTER_DNS], **config})
        if api is not None:
            with Client(api) as client:
                wait_until(lambda: client.node_ready(agent.node), "the node is ready")
        yield Node(directory, runtime, agent, RuntimePods(channel), api)


@contextlib.contextmanager
def started_runtime() -> Iterator[Containerd]:
    """Start containerd with its state in memory."""
    with quick_directory() as directory, Containerd(directory) as runtime:
        yield runtime


@contextlib.contextmanager
def quick_directory() -> Iterator[Path]:
    """Create a temporary directory in memory if possible.

    ext4 avoids recently freed inodes, so on a disk the deletions of one run would slow down the next one.
    """
    parent = MEMORY if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="bench-", dir=parent, ignore_cleanup_errors=True) as directory:
        try:
            yield Path(directory)
        finally:
            unmount_below(Path(directory))


def stop(command: Program) -> None:
    """Stop the process and wait for it; errors are ignored."""
    with contextlib.suppress(AssertionError):
        command.stop()


def bench_pod(name: str, **spec: Any) -> dict[str, Any]:
    """Return a small idle pod."""
    resources = {"requests": {"cpu": "1m", "memory": "4Mi"}, "limits": {"memory": "32Mi"}}
    return simple_pod(name, container={"command": ["/bin/sleep", "1000000"], "resources": resources}, **spec)


def names(count: int = PODS) -> list[str]:
    return [f"{PREFIX}{number:03d}" for number in range(count)]


def idle_percent(command: Program) -> float:
    """Return the CPU usage of the idle process in percent of a core.

    The time of its threads is exact, that of a process a multiple of 10 ms.
    """
    before, started = _thread_seconds(command.pid), time.monotonic()
    time.sleep(IDLE_SECONDS)
    used = sum(after - before.get(thread, 0.0) for thread, after in _thread_seconds(command.pid).items())
    return 100 * used / (time.monotonic() - started)


def _thread_seconds(pid: int) -> dict[str, float]:
    """Return the CPU time of each thread of a process."""
    found = {}
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):  # It has ended.
            found[thread.name] = int((thread / "schedstat").read_text().split()[0]) / 1e9
    return found


def _measured(item: Any) -> bool:
    return bool(item.labels.get(POD_NAME_LABEL, "").startswith(PREFIX))
