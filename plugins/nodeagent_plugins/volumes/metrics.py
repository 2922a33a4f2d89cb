"""What is counted of volumes: how many there are, and how long setting them up and removing them takes."""

from __future__ import annotations

from nodeagent.base.metrics import Histogram, SampledGauge

VOLUMES = SampledGauge(
    "volume_manager_total_volumes",
    "Volumes of pods, by plugin and state.",
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
    """Count an operation on a volume whose directory is named for *kind*."""
    OPERATIONS.observe(seconds, plugin_name(kind), operation, "fail-unknown" if problem else "success", "false")


def plugin_name(kind: str) -> str:
    """Return what a kind of volume is called in metrics: ``kubernetes.io~secret`` is ``kubernetes.io/secret``."""
    return kind.replace("~", "/")
