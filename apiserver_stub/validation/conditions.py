"""Validation of conditions in the form that kinds share (``meta/v1`` ``Condition``)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, duplicate, invalid_value, not_supported, required, too_long
from apiserver_stub.validation.labels import validate_label_name

STATUSES = ("False", "True", "Unknown")
_REASON = r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"
_reason = re.compile(_REASON)
_REASON_RULE = (
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric "
    "characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or "
    f"'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is '{_REASON}')"
)
_REASON_LIMIT_BYTES, _MESSAGE_LIMIT_BYTES = 1 << 10, 32 << 10


def validate_conditions(conditions: Sequence[Object] | None, field: str) -> list[Cause]:
    """Return the errors in a list of conditions."""
    causes: list[Cause] = []
    seen: set[str] = set()
    for index, condition in enumerate(conditions or ()):
        entry, type_ = f"{field}[{index}]", condition.get("type") or ""
        if type_ in seen:
            causes.append(duplicate(f"{entry}.type", type_))
        seen.add(type_)
        causes += _validate_condition(condition, entry)
    return causes


def _validate_condition(condition: Object, field: str) -> list[Cause]:
    status, reason = condition.get("status") or "", condition.get("reason") or ""
    causes = validate_label_name(condition.get("type") or "", f"{field}.type")
    if status not in STATUSES:
        causes.append(not_supported(f"{field}.status", status, STATUSES))
    if (generation := condition.get("observedGeneration") or 0) < 0:
        causes.append(invalid_value(f"{field}.observedGeneration", generation, "must be greater than or equal to zero"))
    if not condition.get("lastTransitionTime"):
        causes.append(required(f"{field}.lastTransitionTime", "must be set"))
    if not reason:
        causes.append(required(f"{field}.reason", "must be set"))
    elif not _reason.fullmatch(reason):
        causes.append(invalid_value(f"{field}.reason", reason, _REASON_RULE))
    for name, limit_bytes in (("reason", _REASON_LIMIT_BYTES), ("message", _MESSAGE_LIMIT_BYTES)):
        if len((condition.get(name) or "").encode()) > limit_bytes:
            causes.append(too_long(f"{field}.{name}", limit_bytes))
    return causes
