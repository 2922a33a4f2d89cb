"""Order of the changes that resize the running containers of a pod. No I/O.

Memory is resized before cpu. The limit of the pod's cgroup is raised before its containers grow and lowered after they
have shrunk, so that it is never below theirs; a limit is raised before the request and lowered after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
from msgspec import field

from nodeagent.base.structs import Struct
from nodeagent.contracts.cgroups import PodLimit
from nodeagent.contracts.runtime import LinuxResources
from nodeagent.model.pod import Container, Pod, ResourceList, ResourceRequirements
from nodeagent.model.resizing import (
    RESIZABLE,
    amount,
    needs_restart,
    same_amounts,
    with_pod_resources,
    with_resources,
)
from nodeagent.model.resources import MEMORY

Limits = Callable[[Pod], LinuxResources]
"""Returns the resources of a pod's cgroup; zero is unlimited."""


class RunningContainer(Struct, frozen=True):
    """A running container, and the resources that the runtime has applied; ``None`` if they are not known."""

    id: str
    container: Container
    actuated: ResourceRequirements | None


class ContainerUpdate(Struct, frozen=True):
    """Change of one resource of a container: its requests and limits after the change."""

    container_id: str
    container: Container


class ResizePlan(Struct, frozen=True):
    """Changes in order, and the memory limits that decrease, in bytes.

    :ivar previous: the pod with the resources in effect.
    """

    previous: Pod
    steps: Sequence[PodLimit | ContainerUpdate] = ()
    pod_memory: int = 0
    """0 if the pod's memory limit does not decrease."""
    container_memory: Mapping[str, int] = field(default_factory=dict)
    """By name of the container."""


def resized(container: Container, actuated: ResourceRequirements | None) -> list[str]:
    """Return the resources of a container that differ from those applied; both if these are not known."""
    if actuated is None:
        return list(RESIZABLE)
    desired = container.resources
    return [
        name
        for name in RESIZABLE
        if amount(desired.requests, name) != amount(actuated.requests, name)
        or amount(desired.limits, name) != amount(actuated.limits, name)
    ]


def restart_required(container: Container, actuated: ResourceRequirements | None) -> bool:
    """Return whether the container must be restarted to change its resources."""
    return actuated is not None and any(needs_restart(container, name) for name in resized(container, actuated))


def plan_resize(
    pod: Pod,
    running: Sequence[RunningContainer],
    limits: Limits,
    *,
    restarting: Iterable[RunningContainer] = (),
    own: ResourceRequirements | None = None,
) -> ResizePlan | None:
    """Return how to apply the resources of *pod*; ``None`` if all of them are in effect.

    :param running: the running containers to change.
    :param restarting: containers that are restarted for the resize; their old resources count for the pod's limits.
    :param own: resources of the pod itself that its cgroup has; ``None`` if they do not change.
    """
    changes = {each.container.name: resized(each.container, each.actuated) for each in running}
    restarting = list(restarting)
    unchanged = own is None or same_amounts(own, pod.spec.resources)
    if not restarting and unchanged and not any(changes.values()):
        return None
    known = {each.container.name: each.actuated for each in (*running, *restarting) if each.actuated is not None}
    previous = with_resources(pod, known) if own is None else with_pod_resources(with_resources(pod, known), own)
    before, after = limits(previous), limits(pod)
    steps: list[PodLimit | ContainerUpdate] = []
    states = {each.container.name: each.actuated or each.container.resources for each in running}
    for resource in RESIZABLE:
        growing, shrinking = _pod_steps(resource, before, after)
        updates = [each for each in running if resource in changes[each.container.name]]
        updates.sort(key=lambda each: not _shrinks(each, resource))
        steps += growing
        for each in updates:
            name = each.container.name
            states[name] = _with_resource(states[name], each.container.resources, resource)
            # Resources that cannot be resized are those of the spec.
            mixed = _only(each.container.resources, states[name])
            steps.append(ContainerUpdate(each.id, msgspec.structs.replace(each.container, resources=mixed)))
        steps += shrinking
    return ResizePlan(
        previous,
        steps,
        pod_memory=after.memory_limit_bytes if _decreases(before.memory_limit_bytes, after.memory_limit_bytes) else 0,
        container_memory=_decreasing_memory(running),
    )


def _pod_steps(resource: str, before: LinuxResources, after: LinuxResources) -> tuple[list[PodLimit], list[PodLimit]]:
    """Return the changes of the pod's cgroup before and after those of its containers."""
    if resource == MEMORY:
        changes = [(PodLimit.MEMORY, before.memory_limit_bytes or None, after.memory_limit_bytes or None)]
    else:
        changes = [
            (PodLimit.CPU, before.cpu_quota or None, after.cpu_quota or None),
            (PodLimit.CPU_SHARES, before.cpu_shares, after.cpu_shares),
        ]
    growing = [kind for kind, old, new in changes if _grows(old, new)]
    shrinking = [kind for kind, old, new in changes if _grows(new, old)]
    return growing, shrinking[::-1]


def _grows(old: int | None, new: int | None) -> bool:
    """Return whether a limit increases; ``None`` is unlimited."""
    return old is not None and (new is None or new > old)


def _decreases(old: int, new: int) -> bool:
    return bool(new) and (not old or new < old)


def _shrinks(each: RunningContainer, resource: str) -> bool:
    """Return whether the limit of a container decreases, or the request if the limit stays."""
    actuated = each.actuated or ResourceRequirements()
    for kind in ("limits", "requests"):
        old, new = (amount(getattr(source, kind), resource) for source in (actuated, each.container.resources))
        if old != new:
            return new < old
    return False


def _decreasing_memory(running: Sequence[RunningContainer]) -> dict[str, int]:
    found = {}
    for each in running:
        if each.actuated is None:
            continue
        old, new = (amount(source.limits, MEMORY).value() for source in (each.actuated, each.container.resources))
        if _decreases(old, new):
            found[each.container.name] = new
    return found


def _with_resource(state: ResourceRequirements, desired: ResourceRequirements, resource: str) -> ResourceRequirements:
    """Return *state* with one resource of *desired*."""

    def changed(old: ResourceList | None, new: ResourceList | None) -> ResourceList | None:
        kept = {name: value for name, value in (old or {}).items() if name != resource}
        return {**kept, **{name: value for name, value in (new or {}).items() if name == resource}} or None

    return ResourceRequirements(
        limits=changed(state.limits, desired.limits), requests=changed(state.requests, desired.requests)
    )


def _only(desired: ResourceRequirements, state: ResourceRequirements) -> ResourceRequirements:
    """Return *desired* with cpu and memory of *state*."""
    result = desired
    for resource in RESIZABLE:
        result = _with_resource(result, state, resource)
    return msgspec.structs.replace(result, claims=desired.claims)


def shortage(plan: ResizePlan, pod_usage: int | None, usage: Mapping[str, int]) -> list[str]:
    """Return why memory limits cannot be lowered: the usage has reached the new limits.

    :param pod_usage: memory usage of the pod in bytes; ``None`` if it is unknown.
    :param usage: memory usage by name of the container.
    """
    errors = []
    if plan.pod_memory:
        if pod_usage is None:
            errors.append("missing pod memory usage")
        elif pod_usage >= plan.pod_memory:
            errors.append(f"attempting to set pod memory limit ({plan.pod_memory}) below current usage ({pod_usage})")
    for name, limit in plan.container_memory.items():
        if name not in usage:
            errors.append(f'missing container "{name}" memory usage')
        elif usage[name] >= limit:
            errors.append(
                f'attempting to set container "{name}" memory limit ({limit}) below current usage ({usage[name]})'
            )
    return errors
