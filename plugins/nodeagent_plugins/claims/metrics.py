"""Metrics of resource claims."""

from __future__ import annotations

from nodeagent.base.metrics import Gauge, Histogram

_BOUNDS = (0.1, 0.2, 0.3, 0.4, 0.5, 1, 2, 3, 4, 5, 10, 15, 20, 30, 40)
OPERATIONS = Histogram(
    "dra_operations_duration_seconds",
    "Latency histogram in seconds for the duration of handling all ResourceClaims referenced by a pod when the pod "
    "starts or stops. Identified by the name of the operation (PrepareResources or UnprepareResources) and separated "
    "by the success of the operation. The number of failed operations is provided through the histogram's "
    "overall count.",
    ("operation_name", "is_error"),
    bounds=_BOUNDS,
    prefixed=False,
)
CALLS = Histogram(
    "dra_grpc_operations_duration_seconds",
    "Duration in seconds of the DRA gRPC operations",
    ("driver_name", "method_name", "grpc_status_code"),
    bounds=_BOUNDS,
    prefixed=False,
)
IN_USE = Gauge(
    "dra_resource_claims_in_use",
    "The number of ResourceClaims that are currently in use on the node, by driver name (driver_name label value) and "
    "across all drivers (special value <any> for driver_name). Note that the sum of all by-driver counts is not the "
    "total number of in-use ResourceClaims because the same ResourceClaim might use devices from different drivers. "
    "Instead, use the count for the <any> driver_name.",
    ("driver_name",),
    prefixed=False,
)
