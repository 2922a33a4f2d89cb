"""Tables of default values, and their application to an object."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import field

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from nodeagent.base.structs import Struct


class Defaults(Struct, frozen=True):
    """The defaults of one type.

    The fields of an object that reaches a table are complete in Go's sense: a zero value of a field without presence is
    absent. A default therefore replaces both an unset field and an explicit zero value, as upstream.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    """Value by field, for absent fields."""
    rule: Callable[[Object], None] | None = None
    """Defaults that depend on other fields; called after *values*, before the tables below."""
    below: Mapping[str, Defaults] = field(default_factory=dict)
    """Tables of the objects in a field: the object itself, or the items of a list."""

    def apply(self, obj: Object) -> None:
        """Set the defaults of *obj* in place."""
        for name, value in self.values.items():
            if name not in obj:
                obj[name] = objects.clone(value) if value.__class__ in (dict, list) else value
        if self.rule is not None:
            self.rule(obj)
        for name, table in self.below.items():
            content = obj.get(name)
            if content.__class__ is dict:
                table.apply(content)
            elif content.__class__ is list:
                for item in content:
                    if item.__class__ is dict:
                        table.apply(item)
