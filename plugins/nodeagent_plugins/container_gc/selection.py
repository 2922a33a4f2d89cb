"""Selection of the dead containers and sandboxes to remove. No I/O."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import Enum

from nodeagent.base.structs import Struct
from nodeagent.contracts.runtime import LABEL_CONTAINER_NAME, LABEL_POD_UID, ContainerInfo, ContainerState, SandboxInfo

Unit = tuple[str, str]
"""Pod UID and container name."""


class PodGcState(Enum):
    """Collection state of a pod."""

    LIVES = "lives"
    """Containers may be restarted, so the latest of each name is required and retained."""
    ENDED = "ended"
    """Terminated, but the pod object exists."""
    EVICTED = "evicted"
    """Evicted: all containers are removed."""


class Policy(Struct, frozen=True):
    """Limits of dead containers; a negative number disables the limit."""

    per_container: int = 1
    """Per name and pod."""
    total: int = -1
    """Per node."""
    minimum_age_seconds: float = 0.0


def surplus_containers(
    containers: Iterable[ContainerInfo], fates: Mapping[str, PodGcState], policy: Policy, now: int
) -> list[ContainerInfo]:
    """Return the containers to remove, oldest first.

    Containers of pods that are not in *fates* are skipped. The limit per node is reached by removing equally from all
    units, then the oldest; containers that an active pod requires are retained.

    :param now: nanoseconds since the epoch.
    """
    units = _dead_by_unit(containers, fates, now - int(policy.minimum_age_seconds * 1e9))
    removed: list[ContainerInfo] = []
    for (uid, _), dead in units.items():
        if fates[uid] is PodGcState.EVICTED:
            _keep(dead, 0, removed)
        elif policy.per_container >= 0:
            _keep(dead, policy.per_container, removed)
    units = {unit: dead for unit, dead in units.items() if dead}
    total = sum(map(len, units.values()))
    if 0 <= policy.total < total:
        for dead in units.values():
            _keep(dead, max(1, policy.total // len(units)), removed)
        rest = sorted((one for dead in units.values() for one in dead), key=_age)
        removed += rest[: max(0, len(rest) - policy.total)]
    needed = _needed(containers, fates)
    return sorted((one for one in removed if one.id not in needed), key=_age)


def reclaimable_containers(containers: Iterable[ContainerInfo], fates: Mapping[str, PodGcState]) -> list[ContainerInfo]:
    """Return all dead containers except those that an active pod requires, oldest first."""
    needed = _needed(containers, fates)
    units = _dead_by_unit(containers, fates)
    return sorted((one for dead in units.values() for one in dead if one.id not in needed), key=_age)


def surplus_sandboxes(
    sandboxes: Iterable[SandboxInfo], containers: Iterable[ContainerInfo], fates: Mapping[str, PodGcState]
) -> list[SandboxInfo]:
    """Return empty sandboxes that are not ready: all of an evicted pod, all except the latest of other pods."""
    used = {container.sandbox_id for container in containers}
    pods: dict[str, list[SandboxInfo]] = defaultdict(list)
    for sandbox in sandboxes:
        if sandbox.uid in fates:
            pods[sandbox.uid].append(sandbox)
    removed = []
    for uid, found in pods.items():
        found.sort(key=lambda sandbox: (sandbox.attempt, sandbox.created_at), reverse=True)
        candidates = found if fates[uid] is PodGcState.EVICTED else found[1:]
        removed += [sandbox for sandbox in candidates if not sandbox.ready and sandbox.id not in used]
    return removed


def _dead_by_unit(
    containers: Iterable[ContainerInfo], fates: Mapping[str, PodGcState], made_before: float = float("inf")
) -> dict[Unit, list[ContainerInfo]]:
    """Return dead containers by unit, latest first."""
    units: dict[Unit, list[ContainerInfo]] = defaultdict(list)
    for one in containers:
        unit = _unit(one)
        if one.state is not ContainerState.RUNNING and one.created_at <= made_before and unit[0] in fates:
            units[unit].append(one)
    for dead in units.values():
        dead.sort(key=_order, reverse=True)
    return units


def _needed(containers: Iterable[ContainerInfo], fates: Mapping[str, PodGcState]) -> Collection[str]:
    """Return the IDs of the latest container of each name, running or not, in active pods."""
    newest: dict[Unit, ContainerInfo] = {}
    for one in containers:
        unit = _unit(one)
        if fates.get(unit[0]) is PodGcState.LIVES and (unit not in newest or _order(one) > _order(newest[unit])):
            newest[unit] = one
    return frozenset(one.id for one in newest.values())


def _keep(dead: list[ContainerInfo], count: int, removed: list[ContainerInfo]) -> None:
    """Move all except the first *count* of *dead* to *removed*."""
    removed += dead[count:]
    del dead[count:]


def _unit(one: ContainerInfo) -> Unit:
    return one.labels.get(LABEL_POD_UID, ""), one.labels.get(LABEL_CONTAINER_NAME, one.name)


def _order(one: ContainerInfo) -> tuple[int, int]:
    """Return the position among the containers of a unit; the clock may have been set back between two attempts."""
    return one.attempt, one.created_at


def _age(one: ContainerInfo) -> tuple[int, int]:
    return one.created_at, one.attempt


def names(containers: Sequence[ContainerInfo]) -> list[str]:
    """Return short names for display: container, attempt and the start of the ID."""
    return [f"{one.name}/{one.attempt} ({one.id[:12]})" for one in containers]
