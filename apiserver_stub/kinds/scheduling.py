"""PriorityClasses and RuntimeClasses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause
from apiserver_stub.defaulting.priority_classes import PRIORITY_CLASS
from apiserver_stub.kinds.columns import AGE, NAME, at
from apiserver_stub.kinds.registry import Resource, Strategy
from apiserver_stub.validation.metadata import MetadataRules
from apiserver_stub.validation.priority_classes import validate_priority_class, validate_priority_class_update
from apiserver_stub.validation.runtime_classes import (
    runtime_class_warnings,
    validate_runtime_class,
    validate_runtime_class_update,
)
from nodeagent.base.release import OLDEST, Release

if TYPE_CHECKING:
    from apiserver_stub.kinds.settings import KindSettings
    from nodeagent.base.identity import Identity

_WITH_POLICY_COLUMN = Release(1, 32)


class PriorityClassStrategy(Strategy):
    """PriorityClasses."""

    counted = ("value",)

    def default(self, new: Object) -> None:
        PRIORITY_CLASS.apply(new)

    def validate(self, new: Object) -> list[Cause]:
        return validate_priority_class(new)

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        return validate_priority_class_update(new, old)


class RuntimeClassStrategy(Strategy):
    """RuntimeClasses."""

    def __init__(self, identity: Identity, release: Release = OLDEST) -> None:
        self._identity, self._release = identity, release

    def validate(self, new: Object) -> list[Cause]:
        return validate_runtime_class(new, self._identity, self._release)

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        return self.validate(new) + validate_runtime_class_update(new, old)

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        return runtime_class_warnings(new, self._identity)


def resources(settings: KindSettings) -> list[Resource]:
    shows_policy = settings.compatibility_version >= _WITH_POLICY_COLUMN
    policy = (at("PreemptionPolicy", "preemptionPolicy", default=""),) if shows_policy else ()
    return [
        Resource(
            settings.identity.group("scheduling"),
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
                *policy,
            ),
        ),
        Resource(
            settings.identity.group("node"),
            "v1",
            "RuntimeClass",
            "runtimeclasses",
            namespaced=False,
            metadata_rules=MetadataRules(standard_finalizers=False),
            strategy=RuntimeClassStrategy(settings.identity, settings.compatibility_version),
            columns=(NAME, at("Handler", "handler"), AGE),
            create_on_update=True,
            unconditional_update=False,
        ),
    ]
