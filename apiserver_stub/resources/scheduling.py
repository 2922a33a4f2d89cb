"""Priority classes and runtime classes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver_stub.objects import Object
from apiserver_stub.resources.columns import AGE, NAME, at
from apiserver_stub.resources.registry import Resource, Strategy
from apiserver_stub.status import Cause, forbidden_value, invalid_value, required
from apiserver_stub.validation.metadata import MetadataRules
from apiserver_stub.validation.names import label_problems
from nodeagent.base import identity

if TYPE_CHECKING:
    from apiserver_stub.options import Options

HIGHEST_USER_PRIORITY = 1_000_000_000
SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


class PriorityClassStrategy(Strategy):
    """Values of users end where those of the system begin; value and preemption policy stay."""

    counted = ("value",)

    def default(self, new: Object) -> None:
        new.setdefault("preemptionPolicy", "PreemptLowerPriority")
        new.setdefault("value", 0)

    def validate(self, new: Object) -> list[Cause]:
        name = new["metadata"].get("name") or ""
        if name in SYSTEM_PRIORITIES:
            return []
        causes = []
        if name.startswith("system-"):
            detail = "priority class names with 'system-' prefix are reserved for system use only"
            causes.append(forbidden_value("metadata.name", detail))
        if new["value"] > HIGHEST_USER_PRIORITY:
            detail = f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}"
            causes.append(forbidden_value("value", detail))
        return causes

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        causes = []
        if new["value"] != old.get("value"):
            causes.append(forbidden_value("value", "may not be changed in an update."))
        if new["preemptionPolicy"] != old.get("preemptionPolicy"):
            causes.append(invalid_value("preemptionPolicy", new["preemptionPolicy"], "field is immutable"))
        return causes


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
