"""Metrics of sandbox and container starts."""

from __future__ import annotations

from nodeagent.base.metrics import Counter, Gauge, Histogram
from nodeagent.model.pod import ContainerKind

SANDBOX = "pod_sandbox"
CONTAINER_TYPES = {
    ContainerKind.REGULAR: "container",
    ContainerKind.INIT: "init_container",
    ContainerKind.EPHEMERAL: "ephemeral_container",
}

STARTED_PODS = Counter("started_pods_total", "Cumulative number of pods started")
FAILED_PODS = Counter("started_pods_errors_total", "Cumulative number of errors when starting pods")
STARTED_CONTAINERS = Counter("started_containers_total", "Cumulative number of containers started", ("container_type",))
FAILED_CONTAINERS = Counter(
    "started_containers_errors_total",
    "Cumulative number of errors when starting containers",
    ("container_type", "code"),
)
SANDBOX_DURATIONS = Histogram(
    "run_podsandbox_duration_seconds",
    "Duration in seconds of the run_podsandbox operations. Broken down by RuntimeClass.Handler.",
    ("runtime_handler",),
)
FAILED_SANDBOXES = Counter(
    "run_podsandbox_errors_total",
    "Cumulative number of the run_podsandbox operation errors by RuntimeClass.Handler.",
    ("runtime_handler",),
)
HTTP_FALLBACKS = Counter(
    "lifecycle_handler_http_fallbacks_total",
    "The number of times lifecycle handlers successfully fell back to http from https.",
)
EARLY_SLEEPS = Counter(
    "sleep_action_terminated_early_total",
    "The number of times lifecycle sleep handler got terminated before it finishes",
)
RESIZE_MILLISECONDS = Histogram(
    "pod_resize_duration_milliseconds",
    "Duration in milliseconds to actuate a pod resize",
    ("success",),
    bounds=(10, 50, 100, 500, 1000, 2000, 5000, 10000, 20000, 30000, 60000, 120000, 300000, 600000),
)
STARTED_USER_NAMESPACED_PODS = Counter(
    "started_user_namespaced_pods_total", "Cumulative number of pods with user namespaces started"
)
FAILED_USER_NAMESPACED_PODS = Counter(
    "started_user_namespaced_pods_errors_total",
    "Cumulative number of errors when starting pods with user namespaces",
)
REQUESTED_IMAGE_VOLUMES = Counter("image_volume_requested_total", "Number of requested image volumes.")
MOUNTED_IMAGE_VOLUMES = Counter("image_volume_mounted_succeed_total", "Number of successful image volume mounts.")
FAILED_IMAGE_VOLUMES = Counter("image_volume_mounted_errors_total", "Number of failed image volume mounts.")
CLEANED_ORPHANS = Gauge(
    "orphan_pod_cleaned_volumes",
    "The total number of orphaned Pods whose volumes were cleaned in the last periodic sweep.",
)
ORPHANS_LEFT = Gauge(
    "orphan_pod_cleaned_volumes_errors",
    "The number of orphaned Pods whose volumes failed to be cleaned in the last periodic sweep.",
)
