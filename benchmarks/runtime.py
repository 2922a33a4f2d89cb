"""Fifty pods created by CRI calls without an agent: the lower bound for any agent.

Measured twice: with minimal requests, and with those of an agent, whose pods have cgroups, limits, mounts, a grace
period and the default seccomp profile of the runtime for the sandbox, which kubelet requests, too.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc

from benchmarks.figures import Figure
from benchmarks.node import CLUSTER_DNS, POD_NAME_LABEL, PODS, RuntimePods, names, quick_directory, started_runtime
from nodeagent.base.criproto import api_pb2 as cri
from tests.integration.programs import IMAGE

AT_A_TIME = 8
CALL_SECONDS = 120.0
GRACE_SECONDS = 2
"""Minimum that kubelet and agent request."""
MEMORY_BYTES = 32 << 20
CGROUP = "/benchmark"
MASKED_PATHS = (
    "/proc/asound",
    "/proc/acpi",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
)
READONLY_PATHS = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")

FIGURES = (
    Figure("running", f"{PODS} pods without an agent: all running", "s"),
    Figure("running_cpu", "CPU of the host until then", "s"),
    Figure("removed", "all stopped and removed", "s"),
    Figure("agent_running", "the same with the requests of an agent: all running", "s"),
    Figure("agent_removed", f"all stopped with a grace period of {GRACE_SECONDS} s, and removed", "s"),
)


def run() -> dict[str, float]:
    with (
        started_runtime() as runtime,
        grpc.insecure_channel(runtime.endpoint) as channel,
        quick_directory() as directory,
    ):
        calls = Calls(channel)
        cpu = host_cpu_seconds()
        result = {"running": start_all(calls, channel, lambda name: minimal_pod(name, directory))}
        result["running_cpu"] = host_cpu_seconds() - cpu
        started = time.monotonic()
        runtime.remove_pods()
        result["removed"] = time.monotonic() - started
        result["agent_running"] = start_all(calls, channel, lambda name: _agent_pod(name, directory))
        started = time.monotonic()
        calls.remove_all()
        result["agent_removed"] = time.monotonic() - started
    _remove_cgroups()
    return result


class Calls:
    """Requests that start and remove pods.

    :ivar started: IDs of the sandbox and the container of each pod.
    """

    def __init__(self, channel: grpc.Channel) -> None:
        self.started: list[tuple[str, str]] = []
        self._run = _method(channel, "RunPodSandbox", cri.RunPodSandboxRequest, cri.RunPodSandboxResponse)
        self._create = _method(channel, "CreateContainer", cri.CreateContainerRequest, cri.CreateContainerResponse)
        self._start = _method(channel, "StartContainer", cri.StartContainerRequest, cri.StartContainerResponse)
        self._stop = _method(channel, "StopContainer", cri.StopContainerRequest, cri.StopContainerResponse)
        self._stop_sandbox = _method(channel, "StopPodSandbox", cri.StopPodSandboxRequest, cri.StopPodSandboxResponse)
        self._remove = _method(channel, "RemovePodSandbox", cri.RemovePodSandboxRequest, cri.RemovePodSandboxResponse)

    def start(self, pod: tuple[cri.PodSandboxConfig, cri.ContainerConfig]) -> None:
        sandbox, container = pod
        sandbox_id = self._run(config=sandbox).pod_sandbox_id
        created = self._create(pod_sandbox_id=sandbox_id, config=container, sandbox_config=sandbox)
        self._start(container_id=created.container_id)
        self.started.append((sandbox_id, created.container_id))

    def remove(self, pod: tuple[str, str]) -> None:
        sandbox_id, container_id = pod
        self._stop(container_id=container_id, timeout=GRACE_SECONDS)
        self._stop_sandbox(pod_sandbox_id=sandbox_id)
        self._remove(pod_sandbox_id=sandbox_id)

    def remove_all(self) -> None:
        """Stop and remove all started pods."""
        with ThreadPoolExecutor(PODS) as pool:
            list(pool.map(self.remove, self.started))


def start_all(
    calls: Calls, channel: grpc.Channel, pod: Callable[[str], tuple[cri.PodSandboxConfig, cri.ContainerConfig]]
) -> float:
    """Start all pods and return the seconds until they run."""
    calls.started.clear()
    pods = [pod(name) for name in names()]
    started = time.monotonic()
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        list(pool.map(calls.start, pods))
    seconds = time.monotonic() - started
    if len(RuntimePods(channel).running()) != PODS:
        raise RuntimeError("some pods are not running")
    return seconds


def minimal_pod(name: str, logs: Path) -> tuple[cri.PodSandboxConfig, cri.ContainerConfig]:
    sandbox = cri.PodSandboxConfig(
        metadata=cri.PodSandboxMetadata(name=name, uid=f"uid-{name}", namespace="default"),
        labels={POD_NAME_LABEL: name},
        log_directory=str(logs),
        linux=cri.LinuxPodSandboxConfig(),
    )
    container = cri.ContainerConfig(
        metadata=cri.ContainerMetadata(name="main"),
        image=cri.ImageSpec(image=IMAGE),
        command=["/bin/sleep", "1000000"],
        labels={POD_NAME_LABEL: name},
        log_path=f"{name}.log",
        linux=cri.LinuxContainerConfig(),
    )
    return sandbox, container


def _agent_pod(name: str, directory: Path) -> tuple[cri.PodSandboxConfig, cri.ContainerConfig]:
    """Return the pod of :func:`benchmarks.node.bench_pod` as the agent requests it."""
    sandbox, container = minimal_pod(name, directory)
    resources = cri.LinuxContainerResources(cpu_shares=2, memory_limit_in_bytes=MEMORY_BYTES)
    sandbox.hostname = name
    sandbox.dns_config.servers.append(CLUSTER_DNS)
    sandbox.linux.cgroup_parent = f"{CGROUP}/pod{name}"
    sandbox.linux.resources.CopyFrom(resources)
    container.linux.resources.CopyFrom(resources)
    container.linux.resources.oom_score_adj = 999
    sandbox.linux.security_context.seccomp.profile_type = cri.SecurityProfile.RuntimeDefault
    for security in (sandbox.linux.security_context, container.linux.security_context):
        security.namespace_options.pid = cri.CONTAINER
    container.linux.security_context.masked_paths.extend(MASKED_PATHS)
    container.linux.security_context.readonly_paths.extend(READONLY_PATHS)
    for path in ("/etc/hosts", "/dev/termination-log"):
        file = directory / f"{name}{path.replace('/', '-')}"
        file.touch()
        container.mounts.append(cri.Mount(container_path=path, host_path=str(file)))
    return sandbox, container


def _method(channel: grpc.Channel, name: str, request: Any, response: Any) -> Callable[..., Any]:
    path = f"/runtime.v1.RuntimeService/{name}"
    call = channel.unary_unary(path, request.SerializeToString, response.FromString)
    return lambda **fields: call(request(**fields), timeout=CALL_SECONDS)


def _remove_cgroups() -> None:
    """Remove the cgroups of the pods, which the runtime has created and does not remove."""
    root = Path("/sys/fs/cgroup")
    for parent in (root / CGROUP[1:], *root.glob(f"*{CGROUP}")):
        for directory, _, _ in os.walk(parent, topdown=False):
            Path(directory).rmdir()


def host_cpu_seconds() -> float:
    """Return the CPU time of all processes of the host since boot."""
    total = Path("/proc/stat").read_text().splitlines()[0]
    user, nice, system, _, _, irq, softirq, *_ = (int(word) for word in total.split()[1:])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")
