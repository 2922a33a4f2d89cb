"""What is counted about pinned CPUs and alignment."""

from __future__ import annotations

from nodeagent.base.metrics import Counter, Histogram

PINNING_REQUESTS = Counter("cpu_manager_pinning_requests_total", "Containers that asked for cores of their own.")
PINNING_ERRORS = Counter("cpu_manager_pinning_errors_total", "Containers that asked for cores of their own in vain.")
ADMISSIONS = Counter(
    "topology_manager_admission_requests_total",
    "Pods whose resources were to lie together.",
)
ADMISSION_ERRORS = Counter(
    "topology_manager_admission_errors_total",
    "Pods whose resources could not lie together.",
)
ADMISSION_MILLISECONDS = Histogram(
    "topology_manager_admission_duration_ms",
    "Milliseconds that placing the resources of a pod took.",
    bounds=(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024),
)
