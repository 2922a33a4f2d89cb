"""What is counted of sandboxes and containers that are started."""

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
FAILED_PODS = Counter("started_pods_errors_total", "Starts of pods that failed.")
STARTED_CONTAINERS = Counter("started_containers_total", "Cumulative number of containers started", ("container_type",))
FAILED_CONTAINERS = Counter(
    "started_containers_errors_total",
    "Starts of containers that failed.",
    ("container_type", "code"),
)
SANDBOX_DURATIONS = Histogram(
    "run_podsandbox_duration_seconds",
    "How long sandboxes took to be made, by handler of the runtime.",
    ("runtime_handler",),
)
FAILED_SANDBOXES = Counter(
    "run_podsandbox_errors_total",
    "Sandboxes that could not be made, by handler of the runtime.",
    ("runtime_handler",),
)
HTTP_FALLBACKS = Counter(
    "lifecycle_handler_http_fallbacks_total",
    "Hooks asked for over HTTPS that a plain HTTP server answered.",
)
CLEANED_ORPHANS = Gauge(
    "orphan_pod_cleaned_volumes",
    "Pods without an owner whose volumes the last sweep removed.",
)
ORPHANS_LEFT = Gauge(
    "orphan_pod_cleaned_volumes_errors",
    "Pods without an owner whose volumes the last sweep left.",
)
