"""Metric of operations on volumes, which the volume manager and the kinds of volumes share."""

from __future__ import annotations

from nodeagent.base.metrics import Histogram

APPLY_ACCESS_CONTROL = "volume_apply_access_control"
"""Operation that changes the group of the files of a volume."""
OPERATIONS = Histogram(
    "storage_operation_duration_seconds",
    "Storage operation duration",
    ("volume_plugin", "operation_name", "status", "migrated"),
    bounds=(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600),
    prefixed=False,
)


def observe_operation(plugin: str, operation: str, seconds: float, *, failed: bool, migrated: bool = False) -> None:
    """Record an operation on a volume.

    :param plugin: the plugin of the volume, such as ``kubernetes.io/csi:driver``.
    :param operation: name of the operation, such as ``volume_mount``.
    :param seconds: its duration.
    :param failed: it ended with an error.
    :param migrated: the volume has an in-tree source that was translated to its CSI driver.
    """
    status = "fail-unknown" if failed else "success"
    OPERATIONS.observe(seconds, plugin, operation, status, "true" if migrated else "false")
