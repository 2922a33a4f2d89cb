"""CEL types of the objects of bundled and custom kinds. No I/O."""

from __future__ import annotations

from collections.abc import Mapping

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.schema import shapes
from apiserver_stub.schema.shapes import Form, Shape
from apiserver_stub.schema.structural.tree import tree_of
from apiserver_stub.validation.schema_rules.types import ObjectTypes, escaped

_SCALARS: Mapping[Form, str] = {
    Form.TEXT: "string",
    Form.BYTES: "bytes",
    Form.TIME: "timestamp",
    Form.MICRO_TIME: "timestamp",
    Form.INT32: "int",
    Form.INT64: "int",
    Form.BOOL: "bool",
    Form.FLOAT: "double",
    Form.MAP: "map",
}
"""CEL types of values; those of other forms have any type."""
_METADATA = "metadata"


class KindTypes:
    """Object types of kinds in minor release *minor*, by name.

    :param api_domain: domain of API groups.
    """

    def __init__(self, api_domain: str, minor: int) -> None:
        self._api_domain, self._minor = api_domain, minor
        self._objects = ObjectTypes()
        self._names: dict[str, str] = {}

    @property
    def messages(self) -> Mapping[str, Mapping[str, str]]:
        """Types of the fields of the object types, by name."""
        return self._objects.found

    def add_custom(self, source: Object) -> str:
        """Add the type of a custom kind with the schema *source*, and return its name."""
        name = self._objects.add(tree_of(source), is_resource=True)
        pod = shapes.of("v1", "Pod", self._api_domain)  # Its metadata is that of every kind.
        if pod is not None and name in self._objects.found:
            self._objects.found[name][_METADATA] = self._add(pod.members[_METADATA])
        return name

    def add_defined(self, api_version: str, kind: str) -> str | None:
        """Add the type of a kind with a definition, and return its name; ``None`` for other kinds."""
        shape = shapes.of(api_version, kind, self._api_domain)
        return None if shape is None else self._add(shape)

    def _add(self, shape: Shape) -> str:
        if (found := self._names.get(shape.full_name)) is not None:
            return found
        name = self._names[shape.full_name] = f"Type{len(self._objects.found)}"
        fields = self._objects.found[name] = {}
        for field, member in shape.members_at(self._minor).items():
            kind = self._kind_of(member)
            fields |= {known: kind for known in (escaped(field), field) if known is not None and known.isidentifier()}
        return name

    def _kind_of(self, shape: Shape) -> str:
        if shape.form is Form.OBJECT:
            return self._add(shape)
        if shape.form is Form.LIST:
            item = self._kind_of(shape.item or shapes.UNKNOWN)
            return "list" if item in ("dyn", "list", "map") or item.startswith("list(") else f"list({item})"
        return _SCALARS.get(shape.form, "dyn")
