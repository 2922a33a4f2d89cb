"""CPU pinning and topology alignment metrics."""

from __future__ import annotations

from nodeagent.base.metrics import Counter, Histogram, SampledGauge, exponential

PINNING_REQUESTS = Counter(
    "cpu_manager_pinning_requests_total", "The number of cpu core allocations which required pinning."
)
PINNING_ERRORS = Counter(
    "cpu_manager_pinning_errors_total", "The number of cpu core allocations which required pinning failed."
)
SHARED_POOL_MILLICORES = SampledGauge(
    "cpu_manager_shared_pool_size_millicores",
    "The size of the shared CPU pool for non-guaranteed QoS pods, in millicores.",
)
EXCLUSIVE_CPUS = SampledGauge(
    "cpu_manager_exclusive_cpu_allocation_count",
    "The total number of CPUs exclusively allocated to containers running on this node",
)
CPUS_PER_NODE = SampledGauge(
    "cpu_manager_allocation_per_numa", "Number of CPUs allocated per NUMA node", ("numa_node",)
)
MEMORY_REQUESTS = Counter(
    "memory_manager_pinning_requests_total", "The number of memory pages allocations which required pinning."
)
MEMORY_ERRORS = Counter(
    "memory_manager_pinning_errors_total",
    "The number of memory pages allocations which required pinning that failed.",
)
ALIGNED = Counter(
    "container_aligned_compute_resources_count",
    "Cumulative number of aligned compute resources allocated to containers by alignment type.",
    ("scope", "boundary"),
)
NOT_ALIGNED = Counter(
    "container_aligned_compute_resources_failure_count",
    "Cumulative number of failures to allocate aligned compute resources to containers by alignment type.",
    ("scope", "boundary"),
)
CONTAINER_SCOPE, POD_SCOPE = "container", "pod"
PHYSICAL_CPU, UNCORE_CACHE, NUMA_NODE = "physical_cpu", "uncore_cache", "numa_node"
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
    bounds=exponential(0.05, 2, 15),
)
