"""How long pods take to start and their workers to work, and how many there are."""

from __future__ import annotations

from nodeagent.base.aio import Clock
from nodeagent.base.metrics import Counter, Histogram, SampledGauge
from nodeagent.model.pod import Pod, PodStatus

_START_BOUNDS = (
    *(0.5, 1, 2, 3, 4, 5, 6, 8, 10, 20, 30, 45, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600),
)

STEPS = Histogram(
    "pod_worker_duration_seconds",
    "How long one sync of a pod took, by kind of sync.",
    ("operation_type",),
)
WORKER_STARTS = Histogram("pod_worker_start_duration_seconds", "From learning of a pod to its first sync.")
STARTS = Histogram(
    "pod_start_duration_seconds",
    "From learning of a pod to its first running container.",
    bounds=_START_BOUNDS,
)
TOTAL_STARTS = Histogram(
    "pod_start_total_duration_seconds",
    "From a pod's creation until its containers were seen running.",
    bounds=_START_BOUNDS,
)
SLI_STARTS = Histogram(
    "pod_start_sli_duration_seconds",
    "The same without the time for pulls and init containers.",
    bounds=_START_BOUNDS,
)
CONTAINERS = Histogram("containers_per_pod_count", "The number of containers per pod.", bounds=(1, 2, 4, 8, 16))
WORKING = SampledGauge(
    "working_pods",
    "Pods that are worked on, by what is done with them, by who wants them, and whether they are static.",
    ("lifecycle", "config", "static"),
)
ORPHANS = Counter(
    "orphaned_runtime_pods_total",
    "Number of pods that were found in the container runtime without being known to the pod workers first",
)
RESTARTED = Counter(
    "restarted_pods_total",
    "Number of pods that were deleted and created again with the same UID while their end was under way",
    ("static",),
)
for _static in ("", "true"):
    RESTARTED.inc(_static, by=0)


class StartWatch:
    """Measures one pod from the moment it is seen until all of its containers have started.

    A pod that ran before the agent did is not counted.
    """

    def __init__(self, clock: Clock, *, static: bool) -> None:
        self._clock, self._static = clock, static
        self._seen_at = clock.now()
        self._image_seconds = 0.0
        self._begun = self._over = False

    def begin(self, pod: Pod, *, runs: bool) -> bool:
        """Note a step; return whether it is the pod's first.

        :param runs: whether something of the pod is there already.
        """
        if self._begun:
            return False
        self._begun, self._over = True, runs
        if not runs:
            WORKER_STARTS.observe(self._clock.now() - self._seen_at)
            CONTAINERS.observe(len(pod.spec.containers))
        return True

    def waited_for_images(self, seconds: float) -> None:
        self._image_seconds += seconds

    def look(self, pod: Pod, status: PodStatus) -> None:
        """Count the pod once when all of its containers have started."""
        if self._over or status.phase != "Running":
            return
        if not all(shown.started for shown in status.container_statuses or ()):
            return
        self._over = True
        STARTS.observe(self._clock.now() - self._seen_at)
        created = pod.metadata.creation_timestamp
        if created is not None and not self._static:
            total = max(0.0, (self._clock.wall() - created).total_seconds())
            TOTAL_STARTS.observe(total)
            SLI_STARTS.observe(max(0.0, total - self._image_seconds))
