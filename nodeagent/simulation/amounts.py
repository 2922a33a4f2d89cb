"""CPU limits of the simulated containers, in thousandths of a CPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nodeagent.contracts.runtime_config import LinuxResources
from nodeagent.model.pod import Container, Pod
from nodeagent.model.resources import CPU, container_limits

_PERIOD = 100_000


def cpu_limit(container: Mapping[str, Any]) -> int:
    """Return the limit in a container, or its status, of the API; 0 without a limit."""
    text = ((container.get("resources") or {}).get("limits") or {}).get("cpu", "0")
    return int(text.removesuffix("m")) if text.endswith("m") else 1000 * int(text)


def linux_resources(_pod: Pod, container: Container | None) -> LinuxResources:
    """Return the resources of a container, or those of its pod, which are not simulated."""
    limits = container_limits(container) if container is not None else {}
    if CPU not in limits:
        return LinuxResources()
    milli = limits[CPU].milli_value()
    return LinuxResources(cpu_period=_PERIOD, cpu_quota=milli * _PERIOD // 1000, cpu_shares=milli * 1024 // 1000)


def quota(config: Any) -> int:
    """Return the limit in the configuration of a container of the runtime; 0 without a limit."""
    resources = config.linux.resources
    return int(1000 * resources.cpu_quota // resources.cpu_period) if resources.cpu_quota > 0 else 0
