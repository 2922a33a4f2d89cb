"""Fifty pods created by CRI calls without an agent: the lower bound for any agent."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc

from benchmarks.figures import Figure
from benchmarks.node import POD_NAME_LABEL, PODS, RuntimePods, names, quick_directory, started_runtime
from nodeagent.base.criproto import api_pb2 as cri
from tests.integration.programs import IMAGE

AT_A_TIME = 8
CALL_SECONDS = 120.0

FIGURES = (
    Figure("running", f"{PODS} pods without an agent: all running", "s"),
    Figure("running_cpu", "CPU of the host until then", "s"),
    Figure("removed", "all stopped and removed", "s"),
)


def run() -> dict[str, float]:
    with (
        started_runtime() as runtime,
        grpc.insecure_channel(runtime.endpoint) as channel,
        quick_directory() as logs,
        ThreadPoolExecutor(AT_A_TIME) as pool,
    ):
        cpu, started = _host_cpu_seconds(), time.monotonic()
        list(pool.map(lambda name: _start(channel, name, str(logs)), names()))
        result = {"running": time.monotonic() - started, "running_cpu": _host_cpu_seconds() - cpu}
        if len(RuntimePods(channel).running()) != PODS:
            raise RuntimeError("some pods are not running")
        started = time.monotonic()
        runtime.remove_pods()
        return result | {"removed": time.monotonic() - started}


def _start(channel: grpc.Channel, name: str, logs: str) -> None:
    sandbox = cri.PodSandboxConfig(
        metadata=cri.PodSandboxMetadata(name=name, uid=f"uid-{name}", namespace="default"),
        labels={POD_NAME_LABEL: name},
        log_directory=logs,
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
    run_sandbox = _method(channel, "RunPodSandbox", cri.RunPodSandboxRequest, cri.RunPodSandboxResponse)
    create = _method(channel, "CreateContainer", cri.CreateContainerRequest, cri.CreateContainerResponse)
    start = _method(channel, "StartContainer", cri.StartContainerRequest, cri.StartContainerResponse)
    sandbox_id = run_sandbox(config=sandbox).pod_sandbox_id
    created = create(pod_sandbox_id=sandbox_id, config=container, sandbox_config=sandbox)
    start(container_id=created.container_id)


def _method(channel: grpc.Channel, name: str, request: Any, response: Any) -> Callable[..., Any]:
    path = f"/runtime.v1.RuntimeService/{name}"
    call = channel.unary_unary(path, request.SerializeToString, response.FromString)
    return lambda **fields: call(request(**fields), timeout=CALL_SECONDS)


def _host_cpu_seconds() -> float:
    """Return the CPU time of all processes of the host since boot."""
    total = Path("/proc/stat").read_text().splitlines()[0]
    user, nice, system, _, _, irq, softirq, *_ = (int(word) for word in total.split()[1:])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")
