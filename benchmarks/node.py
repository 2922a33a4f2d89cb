"""A node of one's own to measure: containerd, the API server where one is asked for, and the agent."""

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
from benchmarks.reference import ReferenceAgent, ReferenceApiServer
from nodeagent.base.criproto import api_pb2 as cri
from tests.integration.containerd import Containerd
from tests.integration.programs import ApiServer, NodeAgent, Program, simple_pod, wait_until

MEMORY = Path("/dev/shm")
POD_NAME_LABEL = "io.kubernetes.pod.name"
PREFIX = "bench-"
PODS = 50
IDLE_SECONDS = 20.0
SETTLE_SECONDS = 5.0
LIMIT_SECONDS = 240.0


class Programs:
    """Makes the programs that are measured: ours, or the reference ones where they were given."""

    agent: Path | None = None
    server: Path | None = None

    @classmethod
    def new_agent(cls, directory: Path, endpoint: str, api: ApiServer | None, logs: Path) -> NodeAgent:
        if cls.agent:
            return ReferenceAgent(cls.agent, directory, endpoint, api)
        agent = NodeAgent(directory, endpoint, api)
        agent.logs = logs
        return agent

    @classmethod
    def new_server(cls, directory: Path) -> ApiServer:
        return ReferenceApiServer(directory, cls.server) if cls.server else ApiServer(directory)


@dataclass
class Node:
    """The parts of a running node."""

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
    """What the runtime holds of the pods that are measured."""

    def __init__(self, channel: grpc.Channel) -> None:
        service = "/runtime.v1.RuntimeService"
        self._containers = channel.unary_unary(
            f"{service}/ListContainers",
            cri.ListContainersRequest.SerializeToString,
            cri.ListContainersResponse.FromString,
        )
        self._sandboxes = channel.unary_unary(
            f"{service}/ListPodSandbox",
            cri.ListPodSandboxRequest.SerializeToString,
            cri.ListPodSandboxResponse.FromString,
        )

    def running(self) -> set[str]:
        """Names of the pods whose container runs."""
        found = self._containers(cri.ListContainersRequest(), timeout=30).containers
        return {c.labels[POD_NAME_LABEL] for c in found if c.state == cri.CONTAINER_RUNNING and _measured(c)}

    def present(self) -> set[str]:
        """Names of the pods that have a sandbox in any state."""
        found = self._sandboxes(cri.ListPodSandboxRequest(), timeout=30).items
        return {s.labels[POD_NAME_LABEL] for s in found if _measured(s)}


@contextlib.contextmanager
def started_node(*, with_api: bool, streams: bool = False, **config: Any) -> Iterator[Node]:
    """Start a node with the given configuration and wait until it takes pods; everything is removed afterwards.

    :param streams: the API server reaches the agent, where that listens.
    """
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(quick_directory())
        runtime = stack.enter_context(started_runtime())
        channel = stack.enter_context(grpc.insecure_channel(runtime.endpoint))
        api = None
        if with_api:
            api = Programs.new_server(Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="benchmark-"))))
            stack.callback(stop, api)
            api.start()
        logs = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="benchmark-")))
        agent = Programs.new_agent(directory, runtime.endpoint, api, logs)
        stack.callback(stop, agent)
        if streams and api is not None and Programs.server is None:
            agent.arguments += ["--node-ip", "127.0.0.1"]
            config["authentication"] = {"x509": {"clientCAFile": api.facts["clientCaFile"]}}
        agent.start(**config)
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
    """Make a directory in memory where there is one.

    A disk from which many files were just deleted makes new ones slowly (ext4 avoids inodes freed in the last minutes),
    so that a second run would measure the first one's cleaning.
    """
    place = MEMORY if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="bench-", dir=place, ignore_cleanup_errors=True) as directory:
        yield Path(directory)


def stop(program: Program) -> None:
    """End *program* however it is, and wait."""
    with contextlib.suppress(AssertionError):
        program.stop()


def bench_pod(name: str, **spec: Any) -> dict[str, Any]:
    """Return a small pod that does nothing."""
    resources = {"requests": {"cpu": "1m", "memory": "4Mi"}, "limits": {"memory": "32Mi"}}
    return simple_pod(name, container={"command": ["/bin/sleep", "1000000"], "resources": resources}, **spec)


def names(count: int = PODS) -> list[str]:
    return [f"{PREFIX}{number:03d}" for number in range(count)]


def idle_percent(program: Program, seconds: float = IDLE_SECONDS) -> float:
    """Return how much of one core *program* uses while nothing is asked of it."""
    cpu, begun = program.cpu_seconds(), time.monotonic()
    time.sleep(seconds)
    return 100 * (program.cpu_seconds() - cpu) / (time.monotonic() - begun)


def _measured(item: Any) -> bool:
    return bool(item.labels.get(POD_NAME_LABEL, "").startswith(PREFIX))
