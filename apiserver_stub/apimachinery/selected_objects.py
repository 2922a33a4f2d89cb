"""Selectors of requests in the form in which authorizers read them (spec: gate.AuthorizeWithSelectors). No I/O."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from apiserver_stub.apimachinery.objects import Object
from nodeagent.base.selectors import SelectorError, parse_field_selector, parse_label_selector
from nodeagent.base.structs import Struct

_OPERATORS = {"in": "In", "notin": "NotIn", "exists": "Exists", "!": "DoesNotExist"}
"""Operators of label selectors; authorizers do not support others, so they grant no permission."""


class SelectorRequirement(Struct, frozen=True):
    """One condition on a field or label."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def encode(self) -> Object:
        """Return the requirement as in access reviews."""
        encoded: Object = {"key": self.key, "operator": self.operator}
        return encoded | {"values": list(self.values)} if self.values else encoded


class SelectedObjects(Struct, frozen=True):
    """Requirements of a request for the fields and labels of its objects; without any, it is for all objects."""

    fields: tuple[SelectorRequirement, ...] = ()
    labels: tuple[SelectorRequirement, ...] = ()

    def encode(self) -> Object:
        """Return the attributes of access reviews."""
        named = (("fieldSelector", self.fields), ("labelSelector", self.labels))
        return {name: {"requirements": [item.encode() for item in items]} for name, items in named if items}


ALL = SelectedObjects()


def selected_objects(fields: str, labels: str) -> SelectedObjects:
    """Return the requirements of a field selector and a label selector; an invalid one has none."""
    return SelectedObjects(tuple(_field_requirements(fields)), tuple(_label_requirements(labels)))


def reviewed_objects(attributes: Object) -> SelectedObjects:
    """Return the requirements in the attributes of an access review."""
    fields, labels = (attributes.get(name) or {} for name in ("fieldSelector", "labelSelector"))
    raw = selected_objects(fields.get("rawSelector") or "", labels.get("rawSelector") or "")
    return SelectedObjects(
        tuple(_read(fields.get("requirements") or ())) or raw.fields,
        tuple(_read(labels.get("requirements") or ())) or raw.labels,
    )


def _read(requirements: Sequence[Object]) -> Iterator[SelectorRequirement]:
    for item in requirements:
        values = tuple(sorted(item.get("values") or ()))
        yield SelectorRequirement(item.get("key") or "", item.get("operator") or "", values)


def _field_requirements(text: str) -> Iterator[SelectorRequirement]:
    try:
        terms = parse_field_selector(text).terms
    except SelectorError:
        return
    for term in terms:
        yield SelectorRequirement(term.field, "In" if term.equal else "NotIn", (term.value,))


def _label_requirements(text: str) -> Iterator[SelectorRequirement]:
    try:
        requirements = parse_label_selector(text).requirements
    except SelectorError:
        return
    for item in requirements:
        if operator := _OPERATORS.get(item.operator):
            yield SelectorRequirement(item.key, operator, tuple(sorted(item.values)))
