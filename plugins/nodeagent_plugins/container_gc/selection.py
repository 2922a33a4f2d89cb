"""Which dead containers and sandboxes go. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from nodeagent.contracts.runtime import LABEL_CONTAINER_NAME, LABEL_POD_UID, ContainerInfo, ContainerState, SandboxInfo

Unit = tuple[str, str]
"""UID of a pod and name of a container in it."""


class PodGcState(Enum):
    """What may be taken from a pod."""

    LIVES = "lives"
    """It may restart containers: the newest of each name tells whether and when, and stays."""
    ENDED = "ended"
    """It has ended and is kept to be looked at."""
    EVICTED = "evicted"
    """It was evicted to make room: nothing of it is kept."""


@dataclass(frozen=True, slots=True)
class Policy:
    """How many dead containers are kept; a negative number sets no limit."""

    per_container: int = 1
    """Of each name in a pod."""
    total: int = -1
    """On the node."""
    minimum_age_seconds: float = 0.0


def surplus_containers(
    containers: Iterable[ContainerInfo], fates: Mapping[str, PodGcState], policy: Policy, now: int
) -> list[ContainerInfo]:
    """Return the containers that go, the oldest first.

    Those of pods that are not in *fates* are not for us. The total is met by taking from all units alike, then the
    oldest; what a pod that lives needs stays even so.

    :param now: epoch nanoseconds.
    """
    units = _dead_by_unit(containers, fates, now - int(policy.minimum_age_seconds * 1e9))
    gone: list[ContainerInfo] = []
    for (uid, _), dead in units.items():
        if fates[uid] is PodGcState.EVICTED:
            _keep(dead, 0, gone)
        elif policy.per_container >= 0:
            _keep(dead, policy.per_container, gone)
    units = {unit: dead for unit, dead in units.items() if dead}
    total = sum(map(len, units.values()))
    if 0 <= policy.total < total:
        for dead in units.values():
            _keep(dead, max(1, policy.total // len(units)), gone)
        rest = sorted((one for dead in units.values() for one in dead), key=_age)
        gone += rest[: max(0, len(rest) - policy.total)]
    needed = _needed(containers, fates)
    return sorted((one for one in gone if one.id not in needed), key=_age)


def reclaimable_containers(containers: Iterable[ContainerInfo], fates: Mapping[str, PodGcState]) -> list[ContainerInfo]:
    """Return every dead container but what a pod that lives needs, the oldest first."""
    needed = _needed(containers, fates)
    units = _dead_by_unit(containers, fates)
    return sorted((one for dead in units.values() for one in dead if one.id not in needed), key=_age)


def surplus_sandboxes(
    sandboxes: Iterable[SandboxInfo], containers: Iterable[ContainerInfo], fates: Mapping[str, PodGcState]
) -> list[SandboxInfo]:
    """Return sandboxes that are not ready and empty: all of an evicted pod, of others all but the newest."""
    used = {container.sandbox_id for container in containers}
    pods: dict[str, list[SandboxInfo]] = defaultdict(list)
    for sandbox in sandboxes:
        if sandbox.uid in fates:
            pods[sandbox.uid].append(sandbox)
    gone = []
    for uid, found in pods.items():
        found.sort(key=lambda sandbox: sandbox.created_at, reverse=True)
        candidates = found if fates[uid] is PodGcState.EVICTED else found[1:]
        gone += [sandbox for sandbox in candidates if not sandbox.ready and sandbox.id not in used]
    return gone


def _dead_by_unit(
    containers: Iterable[ContainerInfo], fates: Mapping[str, PodGcState], made_before: float = float("inf")
) -> dict[Unit, list[ContainerInfo]]:
    """Return dead containers by unit, the newest first."""
    units: dict[Unit, list[ContainerInfo]] = defaultdict(list)
    for one in containers:
        unit = _unit(one)
        if one.state is not ContainerState.RUNNING and one.created_at <= made_before and unit[0] in fates:
            units[unit].append(one)
    for dead in units.values():
        dead.sort(key=_age, reverse=True)
    return units


def _needed(containers: Iterable[ContainerInfo], fates: Mapping[str, PodGcState]) -> Collection[str]:
    """Return the ids of the newest container of each name, running or not, in pods that live."""
    newest: dict[Unit, ContainerInfo] = {}
    for one in containers:
        unit = _unit(one)
        if fates.get(unit[0]) is PodGcState.LIVES and (unit not in newest or _age(one) > _age(newest[unit])):
            newest[unit] = one
    return frozenset(one.id for one in newest.values())


def _keep(dead: list[ContainerInfo], count: int, gone: list[ContainerInfo]) -> None:
    """Move all but the first *count* of *dead* to *gone*."""
    gone += dead[count:]
    del dead[count:]


def _unit(one: ContainerInfo) -> Unit:
    return one.labels.get(LABEL_POD_UID, ""), one.labels.get(LABEL_CONTAINER_NAME, one.name)


def _age(one: ContainerInfo) -> tuple[int, int]:
    return one.created_at, one.attempt


def names(containers: Sequence[ContainerInfo]) -> list[str]:
    """Return short names for people: container, attempt and the start of the id."""
    return [f"{one.name}/{one.attempt} ({one.id[:12]})" for one in containers]
