"""Resources in container statuses: those granted, and those in effect. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from nodeagent.allocation.report import ResourceReport
from nodeagent.base.quantity import Format, Quantity
from nodeagent.contracts.runtime import ContainerState, LinuxResources, RuntimeContainerStatus, RuntimePod
from nodeagent.model.pod import Container, ContainerStatus, Pod, ResourceList, ResourceRequirements
from nodeagent.model.resizing import amount, resizable_containers
from nodeagent.model.resources import CPU, MEMORY

_MIN_SHARES = 2
_MIN_LIMIT_MILLI = 10
"""CPU limit that the smallest quota enforces in a period of 100 ms."""
_NANOS_PER_MILLI = 1_000_000


def with_resources(
    pod: Pod, statuses: Sequence[ContainerStatus], report: ResourceReport, runtime: RuntimePod | None
) -> list[ContainerStatus]:
    """Return *statuses* with the resources of the containers that can be resized.

    :param pod: the pod with its allocated resources.
    """
    containers = {container.name: container for _, container in resizable_containers(pod, init=report.init)}
    return [
        _with_resources(status, containers[status.name], report, runtime) if status.name in containers else status
        for status in statuses
    ]


def resources_in_effect(
    container: Container, run: RuntimeContainerStatus | None, actuated: ResourceRequirements | None
) -> ResourceRequirements:
    """Return the cpu and memory that the runtime reports, or else has accepted; other resources as allocated.

    A container that is not running has the allocated resources, with which it will start.
    """
    allocated = container.resources
    if run is None or run.state is not ContainerState.RUNNING:
        return allocated
    known = actuated or allocated
    limits, requests = _reported(run.resources)
    for name in (CPU, MEMORY):
        limits.setdefault(name, amount(known.limits, name))
        requests.setdefault(name, amount(known.requests, name))
    if max(each.milli_value() for each in (limits[CPU], amount(allocated.limits, CPU))) <= _MIN_LIMIT_MILLI:
        limits.pop(CPU)  # The kernel's minimum is shown as granted, to be comparable.
    if max(each.milli_value() for each in (requests[CPU], amount(allocated.requests, CPU))) <= _MIN_SHARES:
        requests.pop(CPU)
    return msgspec.structs.replace(
        allocated, limits=_merged(allocated.limits, limits), requests=_merged(allocated.requests, requests)
    )


def _with_resources(
    status: ContainerStatus, container: Container, report: ResourceReport, runtime: RuntimePod | None
) -> ContainerStatus:
    run = runtime.newest(status.name) if runtime is not None else None
    resources = resources_in_effect(container, run, report.actuated.get(status.name))
    requests = container.resources.requests
    return msgspec.structs.replace(
        status, resources=resources, allocated_resources=requests if requests else msgspec.UNSET
    )


def _reported(resources: LinuxResources | None) -> tuple[dict[str, Quantity], dict[str, Quantity]]:
    """Return limits and requests that the runtime reports; a memory request is unknown to it."""
    limits: dict[str, Quantity] = {}
    requests: dict[str, Quantity] = {}
    if resources is None:
        return limits, requests
    if resources.cpu_period > 0 and resources.cpu_quota > 0:
        limits[CPU] = _milli(resources.cpu_quota * 1000 // resources.cpu_period)
    if resources.memory_limit_bytes > 0:
        limits[MEMORY] = Quantity(resources.memory_limit_bytes, format=Format.BINARY)
    if resources.cpu_shares >= _MIN_SHARES:
        requests[CPU] = _milli(-(-resources.cpu_shares * 1000 // 1024))
    return limits, requests


def _merged(allocated: ResourceList | None, found: Mapping[str, Quantity]) -> ResourceList | None:
    """Return *allocated* with the quantities in *found*; equal quantities keep their notation."""
    if not allocated:
        return allocated
    return {
        **allocated,
        **{name: str(value) for name, value in found.items() if value and value != amount(allocated, name)},
    }


def _milli(milli: int) -> Quantity:
    return Quantity(nanos=milli * _NANOS_PER_MILLI)
