"""Metrics of terminated containers."""

from __future__ import annotations

from nodeagent.base.metrics import Counter
from nodeagent.model.pod import PodStatus

TERMINATED_CONTAINERS = Counter(
    "terminated_containers_total",
    "Cumulative number of container terminations.",
    ("container_type", "exit_code", "reason"),
)


def count_terminations(before: PodStatus, after: PodStatus) -> None:
    """Count the containers that are terminated in *after* and were not in *before*."""
    for kind, old, new in (
        ("init_container", before.init_container_statuses, after.init_container_statuses),
        ("container", before.container_statuses, after.container_statuses),
        ("ephemeral_container", before.ephemeral_container_statuses, after.ephemeral_container_statuses),
    ):
        known = {status.name for status in old or () if status.state.terminated is not None}
        for status in new or ():
            ended = status.state.terminated
            if ended is not None and status.name not in known:
                TERMINATED_CONTAINERS.inc(kind, str(ended.exit_code), ended.reason)
