"""Priority classes and runtime classes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver_stub.defaulting.priority_classes import PRIORITY_CLASS
from apiserver_stub.objects import Object
from apiserver_stub.resources.columns import AGE, NAME, at
from apiserver_stub.resources.registry import Resource, Strategy
from apiserver_stub.status import Cause, invalid_value, required
from apiserver_stub.validation.metadata import MetadataRules
from apiserver_stub.validation.names import label_problems
from apiserver_stub.validation.priority_classes import validate_priority_class, validate_priority_class_update
from nodeagent.base import identity

if TYPE_CHECKING:
    from apiserver_stub.options import Options


class PriorityClassStrategy(Strategy):
    """The rules of priority classes."""

    counted = ("value",)

    def default(self, new: Object) -> None:
        PRIORITY_CLASS.apply(new)

    def validate(self, new: Object) -> list[Cause]:
        return validate_priority_class(new)

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        return validate_priority_class_update(new, old)


class RuntimeClassStrategy(Strategy):
    """The handler is a DNS label and stays."""

    def validate(self, new: Object) -> list[Cause]:
        handler = new.get("handler") or ""
        if not handler:
            return [required("handler")]
        return [invalid_value("handler", handler, problem) for problem in label_problems(handler)]

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        if new.get("handler") == old.get("handler"):
            return []
        return [invalid_value("handler", new.get("handler"), "field is immutable")]


def resources(options: Options) -> list[Resource]:
    return [
        Resource(
            identity.current().group("scheduling"),
            "v1",
            "PriorityClass",
            "priorityclasses",
            namespaced=False,
            short_names=("pc",),
            metadata_rules=MetadataRules(whole=0),
            strategy=PriorityClassStrategy(),
            columns=(
                NAME,
                at("Value", "value", type="integer", default=0),
                at("Global-Default", "globalDefault", type="boolean", default=False),
                AGE,
            ),
        ),
        Resource(
            identity.current().group("node"),
            "v1",
            "RuntimeClass",
            "runtimeclasses",
            namespaced=False,
            metadata_rules=MetadataRules(standard_finalizers=False),
            strategy=RuntimeClassStrategy(),
            columns=(NAME, at("Handler", "handler"), AGE),
            create_on_update=True,
            unconditional_update=False,
        ),
    ]
