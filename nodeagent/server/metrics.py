"""``/metrics``: metrics of the agent under the kubelet's names."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from aiohttp import web

from nodeagent.base import identity
from nodeagent.base.metrics import Family, expose, instruments
from nodeagent.base.process_figures import process_figures
from nodeagent.contracts.context import AgentContext
from nodeagent.contracts.runtime import ContainerState, RuntimePod
from nodeagent.contracts.server import Exposure, Route
from nodeagent.contracts.stats import PodUsage
from nodeagent.errors import NodeAgentError
from nodeagent.model.pod import ContainerKind, Pod

_SOURCE = "config.source"
_DESIRED_HELP = (
    "The number of pods the kubelet is being instructed to run. static is true if the pod is not from the apiserver."
)
_ACTIVE_HELP = (
    "The number of pods the kubelet considers active and which are being considered when admitting new pods. static is "
    "true if the pod is not from the apiserver."
)
_FEATURE_HELP = "This metric records the data about the stage and enablement of a k8s feature."
_CONTAINERS_HELP = "Number of containers currently running"
_EPHEMERAL_HELP = "Current number of ephemeral containers in pods managed by this kubelet."
_HEALTH_HELP = (
    "Abnormal volume health status. The count is either 1 or 0. 1 indicates the volume is unhealthy, "
    "0 indicates volume is healthy"
)
_VOLUME_FIGURES = (
    ("capacity_bytes", "Capacity in bytes of the volume"),
    ("available_bytes", "Number of available bytes in the volume"),
    ("used_bytes", "Number of used bytes in the volume"),
    ("inodes", "Maximum number of inodes in the volume"),
    ("inodes_free", "Number of free inodes in the volume"),
    ("inodes_used", "Number of used inodes in the volume"),
)


def metrics_routes(context: AgentContext) -> Sequence[Route]:
    """Return the route; the ``Accept`` header selects the text format or OpenMetrics.

    spec: config.showHiddenMetricsForVersion
    """

    async def metrics(request: web.Request) -> web.Response:
        try:
            usage = await context.stats.pods()
        except NodeAgentError:
            usage = ()
        prefix = f"{identity.current().component}_"
        families = [*_node_families(context, prefix), *_pod_families(context, prefix), *_volume_families(usage, prefix)]
        families += [*instruments(prefix), *await asyncio.to_thread(lambda: list(_process_families()))]
        body, content_type = expose(
            sorted(families, key=lambda family: family.name),
            request.headers.get("Accept", ""),
            deprecated=bool(context.config.show_hidden_metrics_for_version),
        )
        return web.Response(body=body, headers={"Content-Type": content_type})

    return (Route("GET", "/metrics", metrics, Exposure.READ_ONLY, subresources=("metrics",)),)


def _node_families(context: AgentContext, prefix: str) -> Iterator[Family]:
    node = Family(f"{prefix}node_name", "gauge", "The node's name. The count is always 1.", ("node",))
    node.add(1, context.node_name)
    yield node
    domain = identity.current().media_domain
    build = Family(f"{domain}_build_info", "gauge", "Version of this binary.", ("git_version",))
    build.add(1, context.release.node_version)
    yield build
    gates = Family(
        f"{domain}_feature_enabled",
        "gauge",
        _FEATURE_HELP,
        ("name", "stage"),
    )
    for gate, on in context.gates:
        gates.add(int(on), gate.name, gate.stage.value)
    yield gates


def _pod_families(context: AgentContext, prefix: str) -> Iterator[Family]:
    pods = context.pods
    desired, active = pods.all(), pods.active()
    for name, found, text in (
        ("desired_pods", desired, _DESIRED_HELP),
        ("active_pods", active, _ACTIVE_HELP),
    ):
        family = Family(f"{prefix}{name}", "gauge", text, ("static",))
        for label, count in _by_static(found).items():
            family.add(count, label)
        yield family
    observed = [status for pod in desired if (status := pods.observed(pod.uid)) is not None]
    running = Family(f"{prefix}running_pods", "gauge", "Number of pods that have a running pod sandbox")
    running.add(sum(any(sandbox.ready for sandbox in pod.sandboxes) for pod in observed))
    yield running
    states = Family(f"{prefix}running_containers", "gauge", _CONTAINERS_HELP, ("container_state",))
    for state, count in _by_state(observed).items():
        states.add(count, state.name.lower())
    yield states
    debugging = Family(
        f"{prefix}managed_ephemeral_containers",
        "gauge",
        _EPHEMERAL_HELP,
    )
    debugging.add(sum(kind is ContainerKind.EPHEMERAL for pod in active for kind, _ in pod.containers()))
    yield debugging


def _volume_families(usage: Iterable[PodUsage], prefix: str) -> Iterator[Family]:
    """Return the usage of volumes with a claim, and of container logs."""
    volumes = [volume for pod in usage for volume in pod.volumes]
    claimed, health = {}, {}
    for volume in reversed(volumes):  # Of several pods with a claim, the first one is used.
        if volume.claim is not None:
            claimed[volume.claim], health[volume.claim] = volume.filesystem, volume.abnormal
    for figure, text in _VOLUME_FIGURES:
        family = Family(f"{prefix}volume_stats_{figure}", "gauge", text, ("namespace", "persistentvolumeclaim"))
        for claim, filesystem in claimed.items():
            value = getattr(filesystem, figure)
            if value is not None:
                family.add(value, *claim)
        yield family
    abnormal = Family(
        f"{prefix}volume_stats_health_status_abnormal", "gauge", _HEALTH_HELP, ("namespace", "persistentvolumeclaim")
    )
    for claim, status in health.items():
        if status is not None:
            abnormal.add(int(status), *claim)
    yield abnormal
    logs = Family(
        f"{prefix}container_log_filesystem_used_bytes",
        "gauge",
        "Bytes used by the container's logs on the filesystem.",
        ("uid", "namespace", "pod", "container"),
    )
    for pod in usage:
        for container in pod.containers:
            if container.logs is not None and container.logs.used_bytes is not None:
                logs.add(container.logs.used_bytes, pod.uid, pod.namespace, pod.name, container.name)
    yield logs


def _process_families() -> Iterator[Family]:
    """Return the metrics of this process. Blocking."""
    for figure in process_figures():
        family = Family(figure.name, figure.kind, figure.description)
        family.add(figure.value)
        yield family


def _by_static(pods: Iterable[Pod]) -> Counter[str]:
    """Count pods by the upstream label: ``true`` for static pods, else empty."""
    key = identity.current().label(_SOURCE)
    counts = Counter({"": 0, "true": 0})
    counts.update("" if (pod.metadata.annotations or {}).get(key, "api") == "api" else "true" for pod in pods)
    return counts


def _by_state(pods: Iterable[RuntimePod]) -> Counter[ContainerState]:
    counts = Counter(dict.fromkeys(ContainerState, 0))
    counts.update(container.state for pod in pods for container in pod.containers)
    return counts
