"""Structural schemas as trees of nodes, one per value that the OpenAPI schema specifies. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object

METADATA_FIELDS = frozenset(("apiVersion", "kind", "metadata"))


@dataclass(slots=True, eq=False)
class Node:
    """Schema of one value."""

    source: Object
    """The schema as ``JSONSchemaProps``."""
    type: str = ""
    nullable: bool = False
    default: bytes | None = None
    """Default value, as JSON."""
    properties: Mapping[str, Node] = field(default_factory=dict)
    items: Node | None = None
    values: Node | None = None
    """Schema of the values of a map."""
    is_map: bool = False
    """``True`` if ``additionalProperties`` is specified; without a schema, values are scalars or empty."""
    preserves_unknown: bool = False
    is_resource: bool = False
    """``True`` for an object with its own ``apiVersion``, ``kind`` and ``metadata``."""
    int_or_text: bool = False
    list_type: str = ""
    list_keys: tuple[str, ...] = ()
    map_type: str = ""
    rules: Sequence[Object] = ()
    """CEL rules, ``x-kubernetes-validations``."""

    has_defaults: bool = field(init=False)
    """``True`` if a value in this one has a default."""
    has_resources: bool = field(init=False)
    """``True`` if a value in this one, or itself, has its own metadata."""
    has_keyed_lists: bool = field(init=False)
    """``True`` if a list in this value, or itself, is a set or a list of type map."""

    def __post_init__(self) -> None:
        below = self.below()
        self.has_defaults = any(node.default is not None or node.has_defaults for node in below)
        self.has_resources = self.is_resource or any(node.has_resources for node in below)
        self.has_keyed_lists = self.list_type in ("set", "map") or any(node.has_keyed_lists for node in below)

    def below(self) -> list[Node]:
        """Return the nodes of the fields, items and values."""
        return [*self.properties.values(), *(node for node in (self.items, self.values) if node is not None)]

    def default_value(self) -> Any:
        """Return a new copy of the default value, ``None`` if there is none."""
        return None if self.default is None else objects.decode(self.default)

    def child(self, name: str) -> Node | None:
        """Return the node of field *name*, ``None`` if it has no schema."""
        return self.properties.get(name, self.values)


def tree_of(source: Object | None) -> Node:
    """Return the tree of a valid schema; without one, of a schema without fields."""
    return _node(source or {})


def _node(source: Object) -> Node:
    items, additional = source.get("items"), source.get("additionalProperties")
    default = source.get("default")
    return Node(
        source,
        source.get("type") or "",
        bool(source.get("nullable")),
        None if default is None else objects.encode(default),
        {name: _node(content) for name, content in (source.get("properties") or {}).items()},
        _node(items) if isinstance(items, dict) else None,
        _node(additional) if isinstance(additional, dict) else None,
        additional is not None,
        bool(source.get("x-kubernetes-preserve-unknown-fields")),
        bool(source.get("x-kubernetes-embedded-resource")),
        bool(source.get("x-kubernetes-int-or-string")),
        source.get("x-kubernetes-list-type") or "",
        tuple(source.get("x-kubernetes-list-map-keys") or ()),
        source.get("x-kubernetes-map-type") or "",
        source.get("x-kubernetes-validations") or (),
    )
