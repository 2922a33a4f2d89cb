"""Validation of leases."""

from __future__ import annotations

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, forbidden_value, invalid_each, invalid_value, not_supported
from nodeagent.base.names import qualified_name_problems

_STRATEGIES = ("OldestEmulationVersion",)


def validate_lease(lease: Object) -> list[Cause]:
    """Return the errors in a lease, metadata aside."""
    spec, causes = lease.get("spec") or {}, []
    duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if duration is not None and duration <= 0:
        causes.append(invalid_value("spec.leaseDurationSeconds", duration, "must be greater than 0"))
    if transitions is not None and transitions < 0:
        causes.append(invalid_value("spec.leaseTransitions", transitions, "must be greater than or equal to 0"))
    if (strategy := spec.get("strategy")) is not None:
        causes += _validate_strategy(strategy)
    if spec.get("preferredHolder") and not strategy:
        causes.append(forbidden_value("spec.preferredHolder", "may only be specified if `strategy` is defined"))
    return causes


def _validate_strategy(strategy: str) -> list[Cause]:
    field = "spec.strategy.strategy"  # Upstream repeats the name.
    if "/" in strategy:
        return invalid_each(field, strategy, qualified_name_problems(strategy))
    return [] if strategy in _STRATEGIES else [not_supported(field, strategy, _STRATEGIES)]
