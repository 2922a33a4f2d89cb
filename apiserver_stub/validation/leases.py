"""Validation of leases."""

from __future__ import annotations

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, invalid_value


def validate_lease(lease: Object) -> list[Cause]:
    """Return the errors in a lease, metadata aside."""
    spec, causes = lease.get("spec") or {}, []
    duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if duration is not None and duration <= 0:
        causes.append(invalid_value("spec.leaseDurationSeconds", duration, "must be greater than 0"))
    if transitions is not None and transitions < 0:
        causes.append(invalid_value("spec.leaseTransitions", transitions, "must be greater than or equal to 0"))
    return causes
