"""Validation of tolerations and of the effects of taints."""

from __future__ import annotations

import re
from collections.abc import Sequence

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, invalid_value, not_supported, required
from apiserver_stub.validation.labels import validate_label_name
from apiserver_stub.validation.pod_options import PodOptions
from nodeagent.base.gointeger import IntegerError, parse_int64
from nodeagent.base.names import label_value_problems
from nodeagent.base.release import Release

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_OPERATORS, _COMPARISONS = ("Equal", "Exists"), ("Lt", "Gt")
_COMPARISONS_ADDED = Release(1, 35)
COMPARISON_GATE = "TaintTolerationComparisonOperators"
_DECIMAL_INTEGER = re.compile(r"0|-?[1-9][0-9]*")


def validate_tolerations(tolerations: Sequence[Object], field: str, options: PodOptions | None = None) -> list[Cause]:
    """Return the errors in a list of tolerations; without *options*, the rules of release 1.29 apply."""
    causes = []
    for index, toleration in enumerate(tolerations):
        path = f"{field}[{index}]"
        operator, effect = toleration.get("operator") or "", toleration.get("effect") or ""
        value = toleration.get("value") or ""
        if key := toleration.get("key"):
            causes += validate_label_name(key, f"{path}.key")
        elif operator != "Exists":
            detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            causes.append(invalid_value(f"{path}.operator", operator, detail))
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            causes.append(invalid_value(f"{path}.effect", effect, detail))
        if operator in ("", "Equal"):
            if problems := label_value_problems(value):
                causes.append(invalid_value(f"{path}.operator", value, ";".join(problems)))
        elif operator in _COMPARISONS and options is not None and options.release >= _COMPARISONS_ADDED:
            if COMPARISON_GATE in options.features:
                causes += _validate_number(value, f"{path}.value")
            else:
                causes.append(not_supported(f"{path}.operator", operator, (*_OPERATORS, *_COMPARISONS)))
        elif operator not in _OPERATORS:
            causes.append(not_supported(f"{path}.operator", operator, _OPERATORS))
        elif value:
            detail = "value must be empty when `operator` is 'Exists'"
            causes.append(invalid_value(f"{path}.operator", toleration, detail))
        if effect:
            causes += validate_taint_effect(effect, f"{path}.effect")
    return causes


def _validate_number(text: str, field: str) -> list[Cause]:
    """Return the errors in the number that a taint is compared with."""
    causes = []
    if not _DECIMAL_INTEGER.fullmatch(text):
        detail = "must be a valid decimal integer in canonical form" if text else "must be non-empty"
        causes.append(invalid_value(field, text, detail))
    try:
        parse_int64(text)
    except IntegerError as error:
        causes.append(invalid_value(field, text, str(error)))
    return causes


def validate_taint_effect(effect: str, field: str) -> list[Cause]:
    """Return the error in the effect of a taint, which must be set."""
    if effect in _EFFECTS:
        return []
    return [not_supported(field, effect, _EFFECTS) if effect else required(field)]
