"""Node selectors and required node affinity. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nodeagent.model.pod import Pod


def fits_affinity(pod: Pod, labels: Mapping[str, str], node_name: str) -> bool:
    """Tell whether the node's labels meet the pod's node selector and one term of its required affinity.

    A term without expressions, and an affinity without terms, match nothing.
    """
    selector = pod.spec.node_selector or {}
    if any(labels.get(key) != value for key, value in selector.items()):
        return False
    node_affinity = (pod.spec.affinity or {}).get("nodeAffinity") or {}
    required = node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    return any(_term_matches(term, labels, node_name) for term in required.get("nodeSelectorTerms") or ())


def _term_matches(term: Mapping[str, Any], labels: Mapping[str, str], node_name: str) -> bool:
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    return all(_matches(expression, labels) for expression in expressions) and all(
        _matches(expression, {"metadata.name": node_name}) for expression in fields
    )


def _matches(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    value = labels.get(expression.get("key", ""))
    values = expression.get("values") or ()
    match expression.get("operator"):
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" as operator:
            return _compares(value, values, greater=operator == "Gt")
    return False


def _compares(value: str | None, values: Any, *, greater: bool) -> bool:
    try:
        have, (bound,) = int(value or ""), (int(v) for v in values)
    except ValueError:
        return False
    return have > bound if greater else have < bound
