"""Decisions of the Deployment controller: sizes of ReplicaSets, annotations and status. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object, parse_time
from apiserver_stub.controllers.workloads import conditions
from apiserver_stub.controllers.workloads.semantic import same, scaled
from nodeagent.base.gointeger import parse_digits
from nodeagent.base.identity import Identity
from nodeagent.base.structs import Struct

HASH_LABEL = "pod-template-hash"
ROLLING = "RollingUpdate"
AVAILABLE, PAUSED, RESUMED = "NewReplicaSetAvailable", "DeploymentPaused", "DeploymentResumed"
CREATED, FOUND, UPDATED = "NewReplicaSetCreated", "FoundNewReplicaSet", "ReplicaSetUpdated"
TIMED_OUT, CREATE_ERROR = "ProgressDeadlineExceeded", "ReplicaSetCreateError"
NO_DEADLINE = (1 << 31) - 1
_HISTORY_CHARACTERS = 2000
_PROGRESSING, _FAILURE = "Progressing", "ReplicaFailure"


class AnnotationNames(Struct, frozen=True):
    """Annotations of Deployments and their ReplicaSets."""

    revision: str
    history: str
    desired: str
    most: str
    last_applied: str
    rollback: str = "deprecated.deployment.rollback.to"

    @classmethod
    def of(cls, identity: Identity) -> AnnotationNames:
        names = ("revision", "revision-history", "desired-replicas", "max-replicas")
        revision, history, desired, most = (identity.label(name, "deployment") for name in names)
        return cls(revision, history, desired, most, identity.label("last-applied-configuration", "kubectl"))

    @property
    def not_copied(self) -> frozenset[str]:
        """Annotations of Deployments that ReplicaSets do not get."""
        return frozenset((self.revision, self.history, self.desired, self.most, self.last_applied, self.rollback))


def replicas(obj: Object) -> int:
    """Return the desired number of pods of a Deployment or ReplicaSet."""
    return int(obj["spec"].get("replicas") or 0)


def total(sets: Iterable[Object]) -> int:
    """Return the desired number of pods of *sets*."""
    return sum(map(replicas, sets))


def counted(sets: Iterable[Object], name: str) -> int:
    """Return the sum of the counts *name* in the status of *sets*."""
    return sum((item.get("status") or {}).get(name) or 0 for item in sets)


def active(sets: Iterable[Object]) -> list[Object]:
    """Return the ReplicaSets that have desired pods."""
    return [item for item in sets if replicas(item)]


def created_order(item: Object) -> tuple[str, str]:
    """Return the sort key by creation time, then by name."""
    return item["metadata"].get("creationTimestamp") or "", item["metadata"]["name"]


def limits(deployment: Object) -> tuple[int, int]:
    """Return the numbers of surplus and of unavailable pods that the strategy allows; one of them is positive."""
    spec = deployment["spec"]
    strategy, count = spec.get("strategy") or {}, replicas(deployment)
    if strategy.get("type") != ROLLING or not count:
        return 0, 0
    rolling = strategy.get("rollingUpdate") or {}
    surge = scaled(rolling.get("maxSurge"), count, up=True)
    unavailable = scaled(rolling.get("maxUnavailable"), count, up=False)
    if not surge and not unavailable:
        unavailable = 1  # The percentage was rounded down.
    return surge, min(unavailable, count)


def max_surge(deployment: Object) -> int:
    """Return the number of surplus pods that the strategy allows."""
    spec = deployment["spec"]
    if (spec.get("strategy") or {}).get("type") != ROLLING:
        return 0
    rolling = spec["strategy"].get("rollingUpdate") or {}
    return scaled(rolling.get("maxSurge"), replicas(deployment), up=True)


def without_hash(template: Object) -> Object:
    """Return *template* without the label with its hash."""
    metadata = template.get("metadata") or {}
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key != HASH_LABEL}
    return {**template, "metadata": {**metadata, "labels": labels}}


def find_new(deployment: Object, sets: Sequence[Object]) -> Object | None:
    """Return the oldest of *sets* that has the template of *deployment*."""
    target = without_hash(deployment["spec"].get("template") or {})
    for item in sorted(sets, key=created_order):
        if same(without_hash(item["spec"].get("template") or {}), target):
            return item
    return None


def revision_of(obj: Object, names: AnnotationNames) -> int:
    """Return the revision in the annotations of *obj*, 0 if it has none."""
    text = (obj["metadata"].get("annotations") or {}).get(names.revision) or ""
    return parse_digits(text) or 0


def annotate_new(
    deployment: Object, annotations: Object | None, revision: int, names: AnnotationNames, *, exists: bool
) -> Object:
    """Return the annotations of the new ReplicaSet: those of the Deployment, and its revision."""
    result = dict(annotations or {})
    copied = deployment["metadata"].get("annotations") or {}
    result |= {key: value for key, value in copied.items() if key not in names.not_copied}
    text = result.get(names.revision) or ""
    old = parse_digits(text or "0")
    if old is not None and old < revision:
        if text:
            result[names.history] = _history(result.get(names.history) or "", text)
        result[names.revision] = str(revision)
    return result if exists else result | sizes(deployment, names)


def _history(before: str, revision: str) -> str:
    revisions = [*before.split(","), revision] if before else [revision]
    while len(",".join(revisions)) > _HISTORY_CHARACTERS:
        revisions.pop(0)
    return ",".join(revisions)


def sizes(deployment: Object, names: AnnotationNames) -> dict[str, str]:
    """Return the annotations with the size of the Deployment, by which later changes of the size are detected."""
    count = replicas(deployment)
    return {names.desired: str(count), names.most: str(count + max_surge(deployment))}


def is_scaled(deployment: Object, sets: Iterable[Object], names: AnnotationNames) -> bool:
    """Return whether the size of *deployment* has changed since its active ReplicaSets were sized."""
    for item in active(sets):
        text = (item["metadata"].get("annotations") or {}).get(names.desired) or ""
        if (desired := parse_digits(text)) is not None and desired != replicas(deployment):
            return True
    return False


def new_size(deployment: Object, sets: Sequence[Object], current: int) -> int:
    """Return the size of the new ReplicaSet, which has *current* pods; *sets* are all ReplicaSets."""
    desired = replicas(deployment)
    if (deployment["spec"].get("strategy") or {}).get("type") != ROLLING:
        return desired
    most = desired + max_surge(deployment)
    there = total(sets)
    return current if there >= most else current + min(most - there, desired - current)


def proportional_sizes(deployment: Object, sets: Sequence[Object], names: AnnotationNames) -> list[tuple[Object, int]]:
    """Return the active ReplicaSets with their sizes after a change of the size of *deployment* during a rollout.

    The difference is distributed in proportion to the sizes; the largest ReplicaSet gets the remainder.
    """
    desired, surge = replicas(deployment), max_surge(deployment)
    allowed = desired + surge if desired else 0
    to_add = allowed - total(active(sets))
    ordered = sorted(active(sets), key=created_order, reverse=to_add > 0)
    ordered.sort(key=lambda item: -replicas(item))
    added = 0
    result = []
    for item in ordered:
        share = _proportion(item, deployment, to_add, added, names) if to_add else 0
        added += share
        result.append((item, replicas(item) + share))
    if to_add and result:
        first, size = result[0]
        result[0] = first, max(0, size + to_add - added)
    return result


def _proportion(item: Object, deployment: Object, to_add: int, added: int, names: AnnotationNames) -> int:
    if to_add == added:
        return 0
    size, left = replicas(item), to_add - added
    if not replicas(deployment):
        fraction = -size
    else:
        text = (item["metadata"].get("annotations") or {}).get(names.most) or ""
        most = parse_digits(text)
        before = most if most is not None else counted([deployment], "replicas")
        after = replicas(deployment) + max_surge(deployment)
        fraction = (int(size * after / before + 0.5) if before else size) - size
    return min(fraction, left) if to_add > 0 else max(fraction, left)


def old_sizes(deployment: Object, old: Sequence[Object], new: Object) -> list[tuple[Object, int]]:
    """Return the old ReplicaSets to scale down during a rolling update, with their new sizes.

    Pods that are not available are removed first, then as many as the available pods of the new ReplicaSet allow.
    """
    _, unavailable = limits(deployment)
    least = replicas(deployment) - unavailable
    everything = [*old, new]
    new_unavailable = replicas(new) - counted([new], "availableReplicas")
    removable = total(everything) - least - new_unavailable
    if not total(old) or removable <= 0:
        return []
    result = {id(item): (item, replicas(item)) for item in sorted(active(old), key=created_order)}
    left = removable
    for key, (item, size) in result.items():
        count = min(left, max(0, size - counted([item], "availableReplicas")))
        result[key] = item, size - count
        left -= count
    left = counted(everything, "availableReplicas") - least
    for key, (item, size) in result.items():
        count = max(0, min(left, size))
        result[key] = item, size - count
        left -= count
    return [(item, size) for item, size in result.values() if size != replicas(item)]


def status_of(deployment: Object, sets: Sequence[Object], new: Object | None, now: datetime) -> Object:
    """Return the status of *deployment* by the status of its ReplicaSets."""
    before, available = deployment.get("status") or {}, counted(sets, "availableReplicas")
    counts = {
        "observedGeneration": deployment["metadata"].get("generation") or 0,
        "replicas": counted(sets, "replicas"),
        "updatedReplicas": counted([new] if new else [], "replicas"),
        "readyReplicas": counted(sets, "readyReplicas"),
        "availableReplicas": available,
        "unavailableReplicas": max(0, total(sets) - available),
    }
    status: Object = {name: count for name, count in counts.items() if count}
    if "collisionCount" in before:
        status["collisionCount"] = before["collisionCount"]
    _, unavailable = limits(deployment)
    enough = available >= replicas(deployment) - unavailable
    reason = "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable"
    text = f"Deployment {'has' if enough else 'does not have'} minimum availability."
    new_condition = condition("Available", "True" if enough else "False", reason, text, now)
    status["conditions"] = conditions.with_condition(before.get("conditions"), new_condition)
    return status


def rollout_status(deployment: Object, sets: Sequence[Object], new: Object | None, now: datetime) -> Object:
    """Return the status of *deployment* during a rollout, with the condition Progressing."""
    status, before = status_of(deployment, sets, new, now), deployment.get("status") or {}
    current = conditions.find(before.get("conditions"), _PROGRESSING)
    if not has_deadline(deployment):
        status["conditions"] = conditions.without(status["conditions"], _PROGRESSING)
    done = (status.get("replicas") or 0) == (status.get("updatedReplicas") or 0)
    if has_deadline(deployment) and not (done and current is not None and current.get("reason") == AVAILABLE):
        subject = f'ReplicaSet "{new["metadata"]["name"]}"' if new else f'Deployment "{deployment["metadata"]["name"]}"'
        if is_complete(deployment, status):
            text = f"{subject} has successfully progressed."
            new_condition = condition(_PROGRESSING, "True", AVAILABLE, text, now)
            status["conditions"] = conditions.with_condition(status["conditions"], new_condition)
        elif _progresses(before, status):
            new_condition = condition(_PROGRESSING, "True", UPDATED, f"{subject} is progressing.", now)
            if current is not None and current.get("status") == "True":
                new_condition["lastTransitionTime"] = current.get("lastTransitionTime")
            # The time of the update is that of the latest progress, although status and reason may be the same.
            status["conditions"] = [*conditions.without(status["conditions"], _PROGRESSING), new_condition]
        elif _timed_out(deployment, status, now):
            new_condition = condition(_PROGRESSING, "False", TIMED_OUT, f"{subject} has timed out progressing.", now)
            status["conditions"] = conditions.with_condition(status["conditions"], new_condition)
    failures = [
        found
        for item in [*([new] if new else []), *sets]
        if (found := conditions.find((item.get("status") or {}).get("conditions"), _FAILURE))
    ]
    if failures:
        first = failures[0]
        failure = condition(_FAILURE, first["status"], first.get("reason") or "", first.get("message") or "", now)
        failure |= {"lastTransitionTime": first.get("lastTransitionTime")}
        failure |= {"lastUpdateTime": first.get("lastTransitionTime")}
        status["conditions"] = conditions.with_condition(status["conditions"], failure)
    else:
        status["conditions"] = conditions.without(status["conditions"], _FAILURE)
    return status


def condition(kind: str, status: str, reason: str, message: str, now: datetime) -> Object:
    """Return a condition of a Deployment."""
    time = objects.format_time(now)
    return {
        "type": kind,
        "status": status,
        "lastUpdateTime": time,
        "lastTransitionTime": time,
        "reason": reason,
        "message": message,
    }


def has_deadline(deployment: Object) -> bool:
    """Return whether the progress of *deployment* has a deadline."""
    seconds = deployment["spec"].get("progressDeadlineSeconds")
    return seconds is not None and seconds != NO_DEADLINE


def is_complete(deployment: Object, status: Object) -> bool:
    """Return whether all pods have the current template and are available."""
    desired = replicas(deployment)
    names = ("updatedReplicas", "replicas", "availableReplicas")
    observed = (status.get("observedGeneration") or 0) >= (deployment["metadata"].get("generation") or 0)
    return observed and all((status.get(name) or 0) == desired for name in names)


def seconds_left(deployment: Object, now: datetime) -> float | None:
    """Return the time until the deadline for progress, ``None`` if none applies: it is reached, or nothing is due."""
    before = deployment.get("status") or {}
    current = conditions.find(before.get("conditions"), _PROGRESSING)
    if not has_deadline(deployment) or current is None:
        return None
    if is_complete(deployment, before) or current.get("reason") in (TIMED_OUT, AVAILABLE, PAUSED):
        return None
    start = parse_time(current.get("lastUpdateTime"))
    if start is None:
        return None
    return (start + timedelta(seconds=deployment["spec"]["progressDeadlineSeconds"]) - now).total_seconds()


def _progresses(before: Object, after: Object) -> bool:
    def old_pods(status: Object) -> int:
        return (status.get("replicas") or 0) - (status.get("updatedReplicas") or 0)

    def grows(name: str) -> bool:
        return (after.get(name) or 0) > (before.get(name) or 0)

    grown: Any = any(map(grows, ("updatedReplicas", "readyReplicas", "availableReplicas")))
    return grown or old_pods(after) < old_pods(before)


def _timed_out(deployment: Object, status: Object, now: datetime) -> bool:
    current = conditions.find(status["conditions"], _PROGRESSING)
    if current is None or current.get("reason") == AVAILABLE:
        return False
    if current.get("reason") == TIMED_OUT:
        return True
    start = parse_time(current.get("lastUpdateTime"))
    deadline = timedelta(seconds=deployment["spec"]["progressDeadlineSeconds"])
    return start is not None and start + deadline < now
