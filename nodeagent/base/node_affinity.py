"""Node selectors and required node affinity, for the scheduler and for admission on the node. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from nodeagent.base.gointeger import IntegerError, parse_int64

NAME_FIELD = "metadata.name"


class MalformedTerm(ValueError):
    """The term cannot be evaluated; it matches no node."""


def node_matches(
    node_selector: Mapping[str, str], terms: Iterable[Mapping[str, Any]] | None, labels: Mapping[str, str], name: str
) -> bool:
    """Return whether a node has the labels of *node_selector* and matches one of *terms*.

    A term without expressions, and an empty list of terms, match no node.

    :param terms: ``nodeSelectorTerms`` of the required node affinity, ``None`` without affinity.
    :param labels: of the node called *name*.
    """
    if any(labels.get(key) != value for key, value in node_selector.items()):
        return False
    return terms is None or any(_term_matches(term, labels, name) for term in terms)


def _term_matches(term: Mapping[str, Any], labels: Mapping[str, str], name: str) -> bool:
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    try:
        # Each is evaluated: a malformed one must be found.
        labels_match = [_label_matches(item, labels) for item in expressions]
        fields_match = [_field_matches(item, name) for item in fields]
    except MalformedTerm:
        return False
    return all(labels_match) and all(fields_match)


def _label_matches(requirement: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
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
        case "Gt" | "Lt" if len(values) == 1 and (bound := _integer(values[0])) is not None:
            number = _integer(value)
            return number is not None and (number > bound if operator == "Gt" else number < bound)
    raise MalformedTerm(operator)


def _field_matches(requirement: Mapping[str, Any], name: str) -> bool:
    """Return whether a field of the node meets a requirement; a field other than the name is empty.

    :raises MalformedTerm: it has another operator than ``In`` or ``NotIn``, or not exactly one value.
    """
    operator, values = requirement.get("operator"), list(requirement.get("values") or ())
    if operator not in ("In", "NotIn") or len(values) != 1:
        raise MalformedTerm(operator)
    value = name if requirement.get("key") == NAME_FIELD else ""
    return bool(value == values[0]) is (operator == "In")


def _integer(value: object) -> int | None:
    if not isinstance(value, str):
        return None
    try:
        return parse_int64(value)
    except IntegerError:
        return None
