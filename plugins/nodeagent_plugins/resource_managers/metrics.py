"""CPU pinning and topology alignment metrics."""

from __future__ import annotations

from nodeagent.base.metrics import Counter, Histogram

PINNING_REQUESTS = Counter(
    "cpu_manager_pinning_requests_total", "The number of cpu core allocations which required pinning."
)
PINNING_ERRORS = Counter(
    "cpu_manager_pinning_errors_total", "The number of cpu core allocations which required pinning failed."
)
ADMISSIONS = Counter(
    "topology_manager_admission_requests_total",
    "The number of admission requests where resources have to be aligned.",
)
ADMISSION_ERRORS = Counter(
    "topology_manager_admission_errors_total",
    "The number of admission request failures where resources could not be aligned.",
)
ADMISSION_MILLISECONDS = Histogram(
    "topology_manager_admission_duration_ms",
    "Duration in milliseconds to serve a pod admission request.",
    bounds=(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024),
)
