"""Volume metrics: number of volumes and duration of operations."""

from __future__ import annotations

from nodeagent.base.metrics import Histogram, SampledGauge

VOLUMES = SampledGauge(
    "volume_manager_total_volumes",
    "Number of volumes in Volume Manager",
    ("plugin_name", "state"),
    prefixed=False,
)
OPERATIONS = Histogram(
    "storage_operation_duration_seconds",
    "Storage operation duration",
    ("volume_plugin", "operation_name", "status", "migrated"),
    bounds=(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600),
    prefixed=False,
)
MOUNT, UNMOUNT = "volume_mount", "volume_unmount"


def observe(kind: str, operation: str, problem: bool, seconds: float) -> None:
    """Record an operation on a volume in a directory named *kind*."""
    OPERATIONS.observe(seconds, plugin_name(kind), operation, "fail-unknown" if problem else "success", "false")


def plugin_name(kind: str) -> str:
    """Return the plugin name in metrics: ``kubernetes.io~secret`` is ``kubernetes.io/secret``."""
    return kind.replace("~", "/")
