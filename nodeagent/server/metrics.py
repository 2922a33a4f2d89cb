"""``/metrics``: what the agent knows of itself, under the names that dashboards of the field ask for."""

from __future__ import annotations

import asyncio
import os
import resource
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from aiohttp import web

from nodeagent import __version__
from nodeagent.base import identity
from nodeagent.base.metrics import Family, expose, instruments
from nodeagent.contracts.context import AgentContext
from nodeagent.contracts.runtime import ContainerState, RuntimePod
from nodeagent.contracts.server import Exposure, Route
from nodeagent.contracts.stats import PodUsage
from nodeagent.errors import NodeAgentError
from nodeagent.model.pod import ContainerKind, Pod

_SOURCE = "config.source"
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")
_VOLUME_FIGURES = (
    ("capacity_bytes", "Capacity in bytes of the volume"),
    ("available_bytes", "Bytes that a volume has left."),
    ("used_bytes", "Number of used bytes in the volume"),
    ("inodes", "Inodes that a volume can have."),
    ("inodes_free", "Inodes that a volume has left."),
    ("inodes_used", "Inodes that a volume has in use."),
)


def metrics_routes(context: AgentContext) -> Sequence[Route]:
    """Return the route; ``Accept`` chooses between the text format and OpenMetrics.

    spec: config.showHiddenMetricsForVersion
    """

    async def metrics(request: web.Request) -> web.Response:
        try:
            usage = await context.stats.pods()
        except NodeAgentError:
            usage = ()
        prefix = f"{identity.current().component}_"
        families = [*_of_node(context, prefix), *_of_pods(context, prefix), *_of_disks(usage, prefix)]
        families += [*instruments(prefix), *await asyncio.to_thread(lambda: list(_of_process()))]
        body, content_type = expose(
            sorted(families, key=lambda family: family.name),
            request.headers.get("Accept", ""),
            deprecated=bool(context.config.show_hidden_metrics_for_version),
        )
        return web.Response(body=body, headers={"Content-Type": content_type})

    return (Route("GET", "/metrics", metrics, Exposure.READ_ONLY, subresources=("metrics",)),)


def _of_node(context: AgentContext, prefix: str) -> Iterator[Family]:
    node = Family(f"{prefix}node_name", "gauge", "Always 1; the label names the node.", ("node",))
    node.add(1, context.node_name)
    yield node
    domain = identity.current().media_domain
    build = Family(f"{domain}_build_info", "gauge", "Version of this program.", ("git_version",))
    build.add(1, f"v{__version__}")
    yield build
    gates = Family(
        f"{domain}_feature_enabled", "gauge", "Whether a feature is on, by name and stage.", ("name", "stage")
    )
    for gate, on in context.gates:
        gates.add(int(on), gate.name, gate.stage.value)
    yield gates


def _of_pods(context: AgentContext, prefix: str) -> Iterator[Family]:
    pods = context.pods
    wanted, active = pods.all(), pods.active()
    for name, found, text in (
        ("desired_pods", wanted, "Pods that the sources want."),
        ("active_pods", active, "Pods that were admitted and have not ended."),
    ):
        family = Family(f"{prefix}{name}", "gauge", text, ("static",))
        for label, count in _by_static(found).items():
            family.add(count, label)
        yield family
    observed = [seen for pod in wanted if (seen := pods.observed(pod.uid)) is not None]
    running = Family(f"{prefix}running_pods", "gauge", "Pods that have a running sandbox.")
    running.add(sum(any(sandbox.ready for sandbox in pod.sandboxes) for pod in observed))
    yield running
    states = Family(f"{prefix}running_containers", "gauge", "Containers by state.", ("container_state",))
    for state, count in _by_state(observed).items():
        states.add(count, state.name.lower())
    yield states
    debugging = Family(f"{prefix}managed_ephemeral_containers", "gauge", "Ephemeral containers in active pods.")
    debugging.add(sum(kind is ContainerKind.EPHEMERAL for pod in active for kind, _ in pod.containers()))
    yield debugging


def _of_disks(usage: Iterable[PodUsage], prefix: str) -> Iterator[Family]:
    """Return how full claimed volumes are, and how large the logs of containers."""
    claimed = {volume.claim: volume.filesystem for pod in usage for volume in pod.volumes if volume.claim is not None}
    for figure, text in _VOLUME_FIGURES:
        family = Family(f"{prefix}volume_stats_{figure}", "gauge", text, ("namespace", "persistentvolumeclaim"))
        for claim, filesystem in claimed.items():
            value = getattr(filesystem, figure)
            if value is not None:
                family.add(value, *claim)
        yield family
    logs = Family(
        f"{prefix}container_log_filesystem_used_bytes",
        "gauge",
        "Bytes that logs of a container take.",
        ("uid", "namespace", "pod", "container"),
    )
    for pod in usage:
        for container in pod.containers:
            if container.logs is not None and container.logs.used_bytes is not None:
                logs.add(container.logs.used_bytes, pod.uid, pod.namespace, pod.name, container.name)
    yield logs


def _of_process() -> Iterator[Family]:
    """Return what the kernel tells of this process; reads ``/proc``."""
    use = resource.getrusage(resource.RUSAGE_SELF)
    size, resident = Path("/proc/self/statm").read_text(encoding="ascii").split()[:2]
    started = int(Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]) / _TICKS
    boot = next(
        int(line.split()[1])
        for line in Path("/proc/stat").read_text(encoding="ascii").splitlines()
        if line.startswith("btime ")
    )
    for name, kind, text, value in (
        (
            "cpu_seconds_total",
            "counter",
            "Total user and system CPU time spent in seconds.",
            use.ru_utime + use.ru_stime,
        ),
        ("virtual_memory_bytes", "gauge", "Virtual memory size in bytes.", int(size) * _PAGE_BYTES),
        ("resident_memory_bytes", "gauge", "Resident memory size in bytes.", int(resident) * _PAGE_BYTES),
        ("start_time_seconds", "gauge", "Start time of the process since the epoch in seconds.", boot + started),
        ("open_fds", "gauge", "Number of open file descriptors.", len(os.listdir("/proc/self/fd"))),  # noqa: PTH208
        ("max_fds", "gauge", "Maximum number of open file descriptors.", resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
    ):
        family = Family(f"process_{name}", kind, text)
        family.add(value)
        yield family


def _by_static(pods: Iterable[Pod]) -> Counter[str]:
    """Count pods by the label of the field: ``true`` for static ones, else empty."""
    key = identity.current().label(_SOURCE)
    counts = Counter({"": 0, "true": 0})
    counts.update("" if (pod.metadata.annotations or {}).get(key, "api") == "api" else "true" for pod in pods)
    return counts


def _by_state(pods: Iterable[RuntimePod]) -> Counter[ContainerState]:
    counts = Counter(dict.fromkeys(ContainerState, 0))
    counts.update(container.state for pod in pods for container in pod.containers)
    return counts
