"""Volume metrics: number of volumes and duration of operations."""

from __future__ import annotations

from nodeagent.base.metrics import Counter, Histogram, SampledGauge

VOLUMES = SampledGauge(
    "volume_manager_total_volumes",
    "Number of volumes in Volume Manager",
    ("plugin_name", "state"),
    prefixed=False,
)
MOUNT_SECONDS = Histogram(
    "volume_operation_total_seconds",
    "Storage operation end to end duration in seconds",
    ("plugin_name", "operation_name"),
    bounds=(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600),
    prefixed=False,
)
RECONSTRUCTED = Counter(
    "reconstruct_volume_operations_total",
    "The number of volumes that were attempted to be reconstructed from the operating system during kubelet startup. "
    "This includes both successful and failed reconstruction.",
    prefixed=False,
)
RECONSTRUCTION_ERRORS = Counter(
    "reconstruct_volume_operations_errors_total",
    "The number of volumes that failed reconstruction from the operating system during kubelet startup.",
    prefixed=False,
)
FORCE_CLEANED = Counter(
    "force_cleaned_failed_volume_operations_total",
    "The number of volumes that were force cleaned after their reconstruction failed during kubelet startup. This "
    "includes both successful and failed cleanups.",
    prefixed=False,
)
FORCE_CLEANED_ERRORS = Counter(
    "force_cleaned_failed_volume_operation_errors_total",
    "The number of volumes that failed force cleanup after their reconstruction failed during kubelet startup.",
    prefixed=False,
)
MOUNT, UNMOUNT, UNMOUNT_DEVICE = "volume_mount", "volume_unmount", "unmount_device"
MAP, UNMAP, UNMAP_DEVICE = "map_volume", "unmap_volume", "unmap_device"
VERIFY_ATTACHED, DETACH, EXPAND = "verify_controller_attached_volume", "volume_detach", "volume_fs_resize"


def plugin_name(kind: str) -> str:
    """Return the plugin name in metrics: ``kubernetes.io~secret`` is ``kubernetes.io/secret``."""
    return kind.replace("~", "/")
