"""Validation of priority levels."""

from __future__ import annotations

import math

from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.apimachinery.status import Cause, forbidden_value, invalid_value, not_supported, required
from apiserver_stub.defaulting.flow_control_objects import EXEMPT, mandatory_levels
from apiserver_stub.validation.flow_schemas import validate_condition_types

_ENABLEMENTS = ("Exempt", "Limited")
_RESPONSES = ("Queue", "Reject")
_MAX_QUEUES = 10_000_000
_HASH_BITS = 60
_NOT_NEGATIVE = "must be a non-negative integer"


def validate_priority_level(level: Object, *, may_have_zero_shares: bool) -> list[Cause]:
    """Return the errors in a priority level.

    :param may_have_zero_shares: a limited level may have no nominal seats.
    """
    name, spec = level["metadata"].get("name") or "", level.get("spec") or {}
    causes = _validate_spec(name, spec, may_have_zero_shares=may_have_zero_shares)
    fixed = mandatory_levels().get(name)
    if fixed is not None and _without_exempt(name, spec) != _without_exempt(name, fixed):
        detail = "except the 'spec.exempt' field must" if name == EXEMPT else "must"
        causes.append(invalid_value("spec", spec, f"spec of '{name}' {detail} equal the fixed value"))
    return causes + validate_condition_types(level)


def has_zero_shares(level: Object) -> bool:
    """Return whether a stored limited level has no nominal seats."""
    return bool(dig(level, ("spec", "limited", "nominalConcurrencyShares")) == 0)


def _without_exempt(name: str, spec: Object) -> Object:
    return {key: value for key, value in spec.items() if name != EXEMPT or key != "exempt"}


def _validate_spec(name: str, spec: Object, *, may_have_zero_shares: bool) -> list[Cause]:
    kind, causes = spec.get("type") or "", []
    if (name == EXEMPT) != (kind == "Exempt"):
        causes.append(invalid_value("spec.type", kind, "type must be 'Exempt' if and only if name is 'exempt'"))
    limited, exempt = spec.get("limited"), spec.get("exempt")
    if kind == "Exempt":
        if limited is not None:
            causes.append(forbidden_value("spec.limited", "must be nil if the type is not Limited"))
        if exempt is not None:
            causes += _validate_shares(exempt, "spec.exempt", may_be_zero=True) + _validate_lending(
                exempt, "spec.exempt"
            )
    elif kind == "Limited":
        if exempt is not None:
            causes.append(forbidden_value("spec.exempt", "must be nil if the type is Limited"))
        if limited is None:
            causes.append(required("spec.limited", "must not be empty when type is Limited"))
        else:
            causes += _validate_limited(limited, may_have_zero_shares=may_have_zero_shares)
    else:
        causes.append(not_supported("spec.type", kind, _ENABLEMENTS))
    return causes


def _validate_limited(limited: Object, *, may_have_zero_shares: bool) -> list[Cause]:
    causes = _validate_shares(limited, "spec.limited", may_be_zero=may_have_zero_shares)
    causes += _validate_response(limited.get("limitResponse") or {})
    causes += _validate_lending(limited, "spec.limited")
    borrowing = limited.get("borrowingLimitPercent")
    if borrowing is not None and borrowing < 0:
        field = "spec.limited.borrowingLimitPercent"
        causes.append(invalid_value(field, borrowing, f"if specified, {_NOT_NEGATIVE}"))
    return causes


def _validate_shares(settings: Object, field: str, *, may_be_zero: bool) -> list[Cause]:
    shares = settings.get("nominalConcurrencyShares") or 0
    if shares > 0 or (may_be_zero and shares == 0):
        return []
    return [
        invalid_value(f"{field}.nominalConcurrencyShares", shares, _NOT_NEGATIVE if may_be_zero else "must be positive")
    ]


def _validate_lending(settings: Object, field: str) -> list[Cause]:
    percent = settings.get("lendablePercent")
    if percent is None or 0 <= percent <= 100:
        return []
    return [invalid_value(f"{field}.lendablePercent", percent, "must be between 0 and 100, inclusive")]


def _validate_response(response: Object) -> list[Cause]:
    field, kind, queuing = "spec.limited.limitResponse", response.get("type") or "", response.get("queuing")
    if kind == "Reject":
        detail = "must be nil if limited.limitResponse.type is not Limited"
        return [] if queuing is None else [forbidden_value(f"{field}.queuing", detail)]
    if kind != "Queue":
        return [not_supported(f"{field}.type", kind, _RESPONSES)]
    if queuing is None:
        return [required(f"{field}.queuing", "must not be empty if limited.limitResponse.type is Limited")]
    return _validate_queuing(queuing, f"{field}.queuing")


def _validate_queuing(queuing: Object, field: str) -> list[Cause]:
    length, queues, hand = (queuing.get(name) or 0 for name in ("queueLengthLimit", "queues", "handSize"))
    causes = [] if length > 0 else [invalid_value(f"{field}.queueLengthLimit", length, "must be positive")]
    if queues <= 0:
        causes.append(invalid_value(f"{field}.queues", queues, "must be positive"))
    elif queues > _MAX_QUEUES:
        causes.append(invalid_value(f"{field}.queues", queues, f"must not be greater than {_MAX_QUEUES}"))
    if hand <= 0:
        causes.append(invalid_value(f"{field}.handSize", hand, "must be positive"))
    elif hand > queues:
        causes.append(invalid_value(f"{field}.handSize", hand, f"should not be greater than queues ({queues})"))
    elif math.ceil(math.log2(queues) * hand) > _HASH_BITS:
        detail = (
            f"required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {_HASH_BITS}"
        )
        causes.append(invalid_value(f"{field}.handSize", hand, detail))
    return causes
