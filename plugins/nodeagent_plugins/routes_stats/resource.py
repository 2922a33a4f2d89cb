"""``/metrics/resource``: CPU and memory usage for autoscalers and dashboards. No I/O."""

from __future__ import annotations

from collections.abc import Iterable

from nodeagent.base.metrics import Family
from nodeagent.contracts.stats import CpuStats, MemoryStats, NodeUsage, PodUsage

_CONTAINER = ("container", "pod", "namespace")
_POD = ("pod", "namespace")
_BILLION = 1_000_000_000


def resource_families(node: NodeUsage | None, pods: Iterable[PodUsage]) -> list[Family]:
    """Return the metrics with the times of the measurements.

    :param node: ``None`` if the measurement failed.
    """
    container_started = Family(
        "container_start_time_seconds", "gauge", "Start time of the container since unix epoch in seconds", _CONTAINER
    )
    swap_limit = Family(
        "container_swap_limit_bytes",
        "gauge",
        "Current amount of the container swap limit in bytes. Reported only on non-windows systems",
        _CONTAINER,
    )
    of_node = _Use("node", "node", ())
    of_containers, of_pods = _Use("container", "container", _CONTAINER), _Use("pod", "pod", _POD)
    if node is not None:
        of_node.add(node.cpu, node.memory)
    for pod in pods:
        for container in pod.containers:
            values = (container.name, pod.name, pod.namespace)
            if container.start_time > 0:
                container_started.add(container.start_time / _BILLION, *values)
            of_containers.add(container.cpu, container.memory, *values)
            memory = container.memory
            if memory is not None and memory.swap_usage_bytes is not None and memory.swap_available_bytes is not None:
                swap_limit.add(memory.swap_usage_bytes + memory.swap_available_bytes, *values)
        of_pods.add(pod.cpu, pod.memory, pod.name, pod.namespace)
    failed = int(node is None)
    text = "1 if there was an error while getting container metrics, 0 otherwise"
    errors = [
        Family("resource_scrape_error", "gauge", text),
        Family("scrape_error", "gauge", text, deprecated="1.29.0"),
    ]
    for family in errors:
        family.add(failed)
    return [*of_containers.families, swap_limit, container_started, *of_node.families, *of_pods.families, *errors]


class _Use:
    """Metric families of containers, pods or the node."""

    def __init__(self, name: str, thing: str, labels: tuple[str, ...]) -> None:
        self.families = (
            Family(
                f"{name}_cpu_usage_seconds_total",
                "counter",
                f"Cumulative cpu time consumed by the {thing} in core-seconds",
                labels,
            ),
            Family(f"{name}_memory_working_set_bytes", "gauge", f"Current working set of the {thing} in bytes", labels),
            Family(f"{name}_swap_usage_bytes", "gauge", f"Current swap usage of the {thing} in bytes", labels),
        )

    def add(self, cpu: CpuStats | None, memory: MemoryStats | None, *values: str) -> None:
        used, working_set, swap = self.families
        if cpu is not None and cpu.usage_core_nanoseconds is not None:
            used.add(cpu.usage_core_nanoseconds / _BILLION, *values, at=cpu.time)
        if memory is not None and memory.working_set_bytes is not None:
            working_set.add(memory.working_set_bytes, *values, at=memory.time)
        if memory is not None and memory.swap_usage_bytes is not None:
            swap.add(memory.swap_usage_bytes, *values, at=memory.time)
