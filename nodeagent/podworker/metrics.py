"""Metrics of pod workers and pod startup."""

from __future__ import annotations

from nodeagent.base.aio import Clock
from nodeagent.base.metrics import Counter, Gauge, Histogram, SampledGauge
from nodeagent.model.pod import Pod, PodStatus

_START_BOUNDS = (
    *(0.5, 1, 2, 3, 4, 5, 6, 8, 10, 20, 30, 45, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600),
)

_REJECTION_REASONS = frozenset(
    {
        "AppArmor",
        "PodOSSelectorNodeLabelDoesNotMatch",
        "PodOSNotSupported",
        "InvalidNodeInfo",
        "InitContainerRestartPolicyForbidden",
        "SupplementalGroupsPolicyNotSupported",
        "UnexpectedAdmissionError",
        "UnknownReason",
        "UnexpectedPredicateFailureType",
        "OutOfcpu",
        "OutOfmemory",
        "OutOfephemeral-storage",
        "OutOfpods",
        "PodLevelResourcesNotSupported",
        "PodFeatureUnsupported",
        "Evicted",
        "SysctlForbidden",
        "TopologyAffinityError",
        "NodeShutdown",
        "VolumeAttachmentLimitExceeded",
    }
)

STEPS = Histogram(
    "pod_worker_duration_seconds",
    "Duration in seconds to sync a single pod. Broken down by operation type: create, update, or sync",
    ("operation_type",),
)
WORKER_STARTS = Histogram(
    "pod_worker_start_duration_seconds", "Duration in seconds from kubelet seeing a pod to starting a worker."
)
STARTS = Histogram(
    "pod_start_duration_seconds",
    "Duration in seconds from kubelet seeing a pod for the first time to the pod starting to run",
    bounds=_START_BOUNDS,
)
TOTAL_STARTS = Histogram(
    "pod_start_total_duration_seconds",
    "Duration in seconds to start a pod since creation, including time to pull images and run init containers, "
    "measured from pod creation timestamp to when all its containers are reported as started and observed via watch",
    bounds=_START_BOUNDS,
)
SLI_STARTS = Histogram(
    "pod_start_sli_duration_seconds",
    "Duration in seconds to start a pod, excluding time to pull images and run init containers, measured from pod "
    "creation timestamp to when all its containers are reported as started and observed via watch",
    bounds=_START_BOUNDS,
)
FIRST_NETWORK_START = Gauge(
    "first_network_pod_start_sli_duration_seconds",
    "Duration in seconds to start the first network pod, excluding time to pull images and run init containers, "
    "measured from pod creation timestamp to when all its containers are reported as started and observed via watch",
)
ADMISSION_REJECTIONS = Counter(
    "admission_rejections_total", "Cumulative number pod admission rejections by the Kubelet.", ("reason",)
)
CONTAINERS = Histogram("containers_per_pod_count", "The number of containers per pod.", bounds=(1, 2, 4, 8, 16))
WORKING = SampledGauge(
    "working_pods",
    "Number of pods the kubelet is actually running, broken down by lifecycle phase, whether the pod is desired, "
    "orphaned, or runtime only (also orphaned), and whether the pod is static. An orphaned pod has been removed from "
    "local configuration or force deleted in the API and consumes resources that are not otherwise visible.",
    ("lifecycle", "config", "static"),
)
ORPHANS = Counter(
    "orphaned_runtime_pods_total",
    "Number of pods that have been detected in the container runtime without being already known to the pod worker. "
    "This typically indicates the kubelet was restarted while a pod was force deleted in the API or in the local "
    "configuration, which is unusual.",
)
RESTARTED = Counter(
    "restarted_pods_total",
    "Number of pods that have been restarted because they were deleted and recreated with the same UID while the "
    "kubelet was watching them (common for static pods, extremely uncommon for API pods)",
    ("static",),
)
for _static in ("", "true"):
    RESTARTED.inc(_static, by=0)


class StartTimer:
    """Measures the startup of one pod, from its first observation until all of its containers have started.

    A pod that was running before the agent started is not measured.
    """

    def __init__(self, clock: Clock, *, static: bool) -> None:
        self._clock, self._static = clock, static
        self._first_seen_at = clock.now()
        self._image_seconds = 0.0
        self._started = self._observed = False

    def begin(self, pod: Pod, *, runs: bool) -> bool:
        """Record the start of a sync; return whether it is the pod's first.

        :param runs: whether the pod already exists in the runtime.
        """
        if self._started:
            return False
        self._started, self._observed = True, runs
        if not runs:
            WORKER_STARTS.observe(self._clock.now() - self._first_seen_at)
            CONTAINERS.observe(len(pod.spec.containers))
        return True

    def waited_for_images(self, seconds: float) -> None:
        self._image_seconds += seconds

    def observe(self, pod: Pod, status: PodStatus) -> None:
        """Observe the metrics once, when all containers of the pod have started."""
        if self._observed or status.phase != "Running":
            return
        if not all(each.started for each in status.container_statuses or ()):
            return
        self._observed = True
        STARTS.observe(self._clock.now() - self._first_seen_at)
        created = pod.metadata.creation_timestamp
        if created is not None and not self._static:
            total = max(0.0, (self._clock.wall() - created).total_seconds())
            TOTAL_STARTS.observe(total)
            start = max(0.0, total - self._image_seconds)
            SLI_STARTS.observe(start)
            if not pod.spec.host_network and not FIRST_NETWORK_START.value():
                FIRST_NETWORK_START.set(start)


def count_rejection(reason: str) -> None:
    """Count a rejected pod by reason; reasons with unlimited values, such as names of resources, share a label."""
    if reason not in _REJECTION_REASONS:
        reason = "OutOfExtendedResources" if reason.startswith("OutOf") else "Other"
    ADMISSION_REJECTIONS.inc(reason)
