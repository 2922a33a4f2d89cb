"""FlowSchemas and PriorityLevelConfigurations: configuration of API Priority and Fairness."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.apimachinery.status import Cause, forbidden_value
from apiserver_stub.defaulting.flow_control import FLOW_SCHEMA, PRIORITY_LEVEL
from apiserver_stub.kinds.columns import AGE, NAME, at
from apiserver_stub.kinds.registry import Column, Deprecation, Resource, Strategy, Subresource
from apiserver_stub.kinds.versions import effective, with_version
from apiserver_stub.validation.flow_schemas import validate_condition_types, validate_flow_schema
from apiserver_stub.validation.metadata import MetadataRules
from apiserver_stub.validation.priority_levels import has_zero_shares, validate_priority_level
from nodeagent.base.release import Release

if TYPE_CHECKING:
    from apiserver_stub.kinds.settings import KindSettings

_LAST_BETA, _STORED_STABLE = Release(1, 31), Release(1, 30)
"""Last release with version ``v1beta3``, and the first one that stores ``v1``."""
_GROUP, _BETA = "flowcontrol.apiserver", "v1beta3"
_LIMITED = ("spec", "limited")
_SHARES = "nominalConcurrencyShares"
_STATUS_KEEPS = (
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "ownerReferences",
    "selfLink",
    "uid",
)


class FlowSchemaStrategy(Strategy):
    """FlowSchemas; the generation counts the changes of the spec."""

    counted = ("spec",)
    status_keeps = _STATUS_KEEPS

    def default(self, new: Object) -> None:
        FLOW_SCHEMA.apply(new)

    def prepare_create(self, new: Object) -> None:
        new["status"] = {}

    def validate(self, new: Object) -> list[Cause]:
        return validate_flow_schema(new)

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        return validate_condition_types(new) if subresource else validate_flow_schema(new)


class PriorityLevelStrategy(Strategy):
    """PriorityLevelConfigurations; the generation counts the changes of the spec.

    An annotation of ``v1beta3`` states that a level has zero shares, which that version cannot distinguish from none.
    """

    counted = ("spec",)
    status_keeps = _STATUS_KEEPS

    def __init__(self, zero_annotation: str, *, allows_zero_shares: bool) -> None:
        self._zero_annotation, self._allows_zero_shares = zero_annotation, allows_zero_shares

    def default(self, new: Object) -> None:
        limited = dig(new, _LIMITED)
        if isinstance(limited, dict) and new["apiVersion"].endswith(f"/{_BETA}"):
            annotations = new["metadata"].get("annotations") or {}
            if annotations.pop(self._zero_annotation, None) is not None:
                limited.setdefault(_SHARES, 0)
        PRIORITY_LEVEL.apply(new)

    def prepare_create(self, new: Object) -> None:
        new["status"] = {}

    def validate(self, new: Object) -> list[Cause]:
        return self._validate(new, may_have_zero_shares=self._allows_zero_shares)

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        if subresource:
            return validate_condition_types(new)
        return self._validate(new, may_have_zero_shares=self._allows_zero_shares or has_zero_shares(old))

    def _validate(self, new: Object, *, may_have_zero_shares: bool) -> list[Cause]:
        causes = validate_priority_level(new, may_have_zero_shares=may_have_zero_shares)
        if self._zero_annotation in (new["metadata"].get("annotations") or {}):
            causes.insert(
                0, forbidden_value("metadata.annotations", f"annotation '{self._zero_annotation}' is forbidden")
            )
        return causes


def resources(settings: KindSettings) -> list[Resource]:
    """Return the kinds in the versions of the release (spec: opt.enable-priority-and-fairness)."""
    versions = ("v1", "v1beta3") if settings.compatibility_version <= _LAST_BETA else ("v1",)
    return [
        item
        for version in versions
        for item in (_flow_schemas(settings, version, versions), _priority_levels(settings, version, versions))
    ]


def _flow_schemas(settings: KindSettings, version: str, versions: Sequence[str]) -> Resource:
    group, release = settings.identity.group(_GROUP), settings.compatibility_version
    return Resource(
        group,
        version,
        "FlowSchema",
        "flowschemas",
        namespaced=False,
        metadata_rules=MetadataRules(changes=0),
        strategy=FlowSchemaStrategy(),
        subresources=(Subresource("status"),),
        reset_fields={"status": ("spec", "metadata")},
        columns=(
            NAME,
            at("PriorityLevel", "spec.priorityLevelConfiguration.name", default=""),
            at("MatchingPrecedence", "spec.matchingPrecedence", default=0),
            at("DistinguisherMethod", "spec.distinguisherMethod.type", default="<none>"),
            AGE,
            Column("MissingPL", _missing_level),
        ),
        convert=partial(with_version, group, version),
        renamed_fields={f"{group}/{other}": {} for other in versions if other != version},
        hashed_version=_stored_version(release),
        deprecation=_deprecation(settings, version, "FlowSchema"),
    )


def _priority_levels(settings: KindSettings, version: str, versions: Sequence[str]) -> Resource:
    group, release = settings.identity.group(_GROUP), settings.compatibility_version
    zero_annotation = f"{settings.identity.group('flowcontrol')}/v1beta3-preserve-zero-concurrency-shares"
    allows_zero_shares = settings.gates.enabled("ZeroLimitedNominalConcurrencyShares")
    queuing = "spec.limited.limitResponse.queuing"
    return Resource(
        group,
        version,
        "PriorityLevelConfiguration",
        "prioritylevelconfigurations",
        namespaced=False,
        metadata_rules=MetadataRules(changes=0),
        strategy=PriorityLevelStrategy(zero_annotation, allows_zero_shares=allows_zero_shares),
        subresources=(Subresource("status"),),
        reset_fields={"status": ("spec", "metadata")},
        columns=(
            NAME,
            at("Type", "spec.type", default=""),
            at("NominalConcurrencyShares", f"spec.limited.{_SHARES}"),
            at("Queues", f"{queuing}.queues"),
            at("HandSize", f"{queuing}.handSize"),
            at("QueueLengthLimit", f"{queuing}.queueLengthLimit"),
            AGE,
        ),
        convert=partial(_converted_level, zero_annotation, group, version),
        renamed_fields={f"{group}/{other}": {} for other in versions if other != version},
        hashed_version=_stored_version(release),
        deprecation=_deprecation(settings, version, "PriorityLevelConfiguration"),
    )


def _stored_version(release: Release) -> str:
    return "v1" if release >= _STORED_STABLE else _BETA


def _deprecation(settings: KindSettings, version: str, kind: str) -> Deprecation | None:
    if version != _BETA:
        return None
    replacement = f"{settings.identity.group(_GROUP)}/v1 {kind}"
    return effective(Deprecation("1.29", "1.32", replacement), settings.compatibility_version)


def _converted_level(zero_annotation: str, group: str, version: str, level: Object) -> Object:
    """Return *level* in *version*; ``v1beta3`` marks zero shares by an annotation."""
    metadata = {name: value for name, value in level["metadata"].items() if name != "annotations"}
    annotations = {**(level["metadata"].get("annotations") or {})}
    annotations.pop(zero_annotation, None)
    if version == _BETA and has_zero_shares(level):
        annotations[zero_annotation] = ""
    if annotations:
        metadata["annotations"] = annotations
    return {**with_version(group, version, level), "metadata": metadata}


def _missing_level(schema: Object) -> str:
    conditions = dig(schema, ("status", "conditions")) or ()
    return next((str(item.get("status") or "") for item in conditions if item.get("type") == "Dangling"), "?")
