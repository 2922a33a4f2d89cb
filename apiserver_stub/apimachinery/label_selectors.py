"""Label selectors in objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nodeagent.base.selectors import LabelSelector, Requirement

_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}


def read_selector(selector: Mapping[str, Any] | None) -> LabelSelector:
    """Return *selector* parsed; ``None`` and an empty selector match everything."""
    given = selector or {}
    found = [Requirement(key, "in", frozenset([value])) for key, value in (given.get("matchLabels") or {}).items()]
    for item in given.get("matchExpressions") or ():
        operator = _OPERATORS.get(item.get("operator") or "", "in")
        found.append(Requirement(item.get("key") or "", operator, frozenset(item.get("values") or ())))
    return LabelSelector(tuple(found))
