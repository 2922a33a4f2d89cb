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


def format_selector(selector: Mapping[str, Any] | None) -> str:
    """Return *selector* in the format of query parameters, sorted by key."""
    given = selector or {}
    terms = [(key, f"{key}={value}") for key, value in (given.get("matchLabels") or {}).items()]
    for item in given.get("matchExpressions") or ():
        key, operator = item.get("key") or "", _OPERATORS.get(item.get("operator") or "", "in")
        values = ",".join(sorted(item.get("values") or ()))
        texts = {"in": f"{key} in ({values})", "notin": f"{key} notin ({values})", "exists": key, "!": f"!{key}"}
        terms.append((key, texts[operator]))
    return ",".join(text for _, text in sorted(terms, key=lambda term: term[0]))


def format_labels(labels: Mapping[str, str] | None) -> str:
    """Return *labels* as ``a=b,c=d``, sorted by key."""
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items()))
