"""Node selectors and required node affinity. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.scheduling.model import NodeInfo, PodInfo

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_NAME_FIELD = "metadata.name"


class MalformedTerm(ValueError):
    """The term cannot be evaluated; it matches no node."""


def selects(pod: PodInfo, node: NodeInfo) -> bool:
    """Return whether the node selector and the required node affinity of *pod* allow *node*."""
    if any(node.labels.get(key) != value for key, value in pod.node_selector.items()):
        return False
    return pod.node_terms is None or any(_term_matches(term, node) for term in pod.node_terms)


def named_nodes(pod: PodInfo) -> set[str] | None:
    """Return the names of the only nodes that the affinity allows, ``None`` if it does not name nodes."""
    names: set[str] = set()
    for term in pod.node_terms or ():
        found: set[str] | None = None
        for requirement in term.get("matchFields") or ():
            if requirement.get("key") == _NAME_FIELD and requirement.get("operator") == "In":
                values = set(requirement.get("values") or ())
                found = values if found is None else found & values
        if found is None:
            return None
        names |= found
    return names if pod.node_terms else None


def _term_matches(term: Object, node: NodeInfo) -> bool:
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    try:
        labels_match = [_label_matches(item, node.labels) for item in expressions]
        fields_match = [_field_matches(item, node.name) for item in fields]
    except MalformedTerm:
        return False
    return all(labels_match) and all(fields_match)


def _label_matches(requirement: Object, labels: Mapping[str, str]) -> bool:
    """Return whether the labels of a node meet a requirement.

    :raises MalformedTerm: its operator and values do not go together.
    """
    operator, values = requirement.get("operator"), list(requirement.get("values") or ())
    value = labels.get(requirement.get("key") or "")
    match operator:
        case "In" | "NotIn" if values:
            return (value in values) is (operator == "In")
        case "Exists" | "DoesNotExist" if not values:
            return (value is not None) is (operator == "Exists")
        case "Gt" | "Lt" if len(values) == 1 and (bound := _integer(values)) is not None:
            number = _integer([value])
            return number is not None and (number > bound if operator == "Gt" else number < bound)
    raise MalformedTerm(operator)


def _field_matches(requirement: Object, name: str) -> bool:
    """Return whether a field of the node meets a requirement; a field other than the name is empty.

    :raises MalformedTerm: it has another operator than ``In`` or ``NotIn``, or not exactly one value.
    """
    operator, values = requirement.get("operator"), list(requirement.get("values") or ())
    if operator not in ("In", "NotIn") or len(values) != 1:
        raise MalformedTerm(operator)
    value = name if requirement.get("key") == _NAME_FIELD else ""
    return bool(value == values[0]) is (operator == "In")


def _integer(values: Iterable[object]) -> int | None:
    (value,) = values
    return int(value) if isinstance(value, str) and _INTEGER.fullmatch(value) else None
