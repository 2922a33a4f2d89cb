"""Metrics of resizes."""

from __future__ import annotations

from collections.abc import Iterator

from nodeagent.base.metrics import Counter, SampledGauge
from nodeagent.model.pod import Pod, ResourceRequirements
from nodeagent.model.resizing import RESIZABLE, amount, resizable_containers

REQUESTED = Counter(
    "container_requested_resizes_total",
    "Number of requested resizes, counted at the container level. Different resources on the same container are "
    "counted separately. The 'requirement' label refers to 'memory' or 'limits'; the 'operation' label can be one of "
    "'add', 'remove', 'increase' or 'decrease'.",
    ("resource", "requirement", "operation"),
)
PENDING = SampledGauge("pod_pending_resizes", "Number of pending resizes for pods.", ("reason",))
INFEASIBLE = Counter("pod_infeasible_resizes_total", "Number of infeasible resizes for pods.", ("reason_detail",))
IN_PROGRESS = SampledGauge("pod_in_progress_resizes", "Number of in-progress resizes for pods.")
DEFERRED_ACCEPTED = Counter(
    "pod_deferred_accepted_resizes_total",
    "Cumulative number of resizes that were accepted after being deferred.",
    ("retry_trigger",),
)


def count_requested(before: Pod, after: Pod) -> None:
    """Count the resizes that an update of a pod requests."""
    known = {container.name: container.resources for _, container in before.containers()}
    for _, container in resizable_containers(after, init=True):
        old = known.get(container.name)
        if old is not None:
            for labels in _operations(old, container.resources):
                REQUESTED.inc(*labels)


def _operations(before: ResourceRequirements, after: ResourceRequirements) -> Iterator[tuple[str, str, str]]:
    for resource in RESIZABLE:
        for requirement in ("requests", "limits"):
            old, new = (amount(getattr(each, requirement), resource) for each in (before, after))
            if old != new:
                operation = "add" if not old else "remove" if not new else "increase" if old < new else "decrease"
                yield resource, requirement, operation
