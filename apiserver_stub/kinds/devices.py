"""Dynamic resource allocation: DeviceClasses, ResourceClaims, ResourceClaimTemplates and ResourceSlices."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery import device_versions
from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.apimachinery.status import Cause, quote
from apiserver_stub.defaulting.devices import CLAIM, SLICE, TEMPLATE
from apiserver_stub.kinds import disabled_device_fields as disabled
from apiserver_stub.kinds.columns import AGE, NAME, at
from apiserver_stub.kinds.device_taint_rules import taint_rules
from apiserver_stub.kinds.registry import Column, Deprecation, Resource, Strategy, Subresource
from apiserver_stub.kinds.versions import effective
from apiserver_stub.validation.device_claims import (
    device_key,
    validate_claim,
    validate_claim_status,
    validate_same_spec,
    validate_template,
)
from apiserver_stub.validation.device_requests import DeviceRules, validate_class
from apiserver_stub.validation.device_slices import validate_slice
from apiserver_stub.validation.metadata import MetadataRules
from nodeagent.base.release import Release

if TYPE_CHECKING:
    from apiserver_stub.kinds.settings import KindSettings
    from nodeagent.base.gates import FeatureGates
    from nodeagent.base.identity import Identity

_FIRST_RELEASES = {"v1": Release(1, 34), "v1beta2": Release(1, 33), "v1beta1": Release(1, 32)}
_DEPRECATIONS = {"v1beta1": ("1.35", "1.38"), "v1beta2": ("1.36", "1.39")}
_STATUS_KEEPS = ("labels", "annotations", "finalizers", "ownerReferences", "deletionTimestamp", "selfLink")


class DeviceClassStrategy(Strategy):
    """DeviceClasses: selectors and configurations that claims refer to by name."""

    counted = ("spec",)

    def __init__(self, gates: FeatureGates, rules: DeviceRules) -> None:
        self._gates, self._rules = gates, rules

    def prepare_create(self, new: Object) -> None:
        disabled.drop_from_class(self._gates, new)

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        disabled.drop_from_class(self._gates, new, old)

    def validate(self, new: Object) -> list[Cause]:
        return validate_class(new.get("spec") or {}, self._rules)

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        return validate_class(new.get("spec") or {}, self._rules, old.get("spec") or {})


class ResourceClaimStrategy(Strategy):
    """ResourceClaims: the specification is immutable, the scheduler and drivers report the status."""

    status_keeps = _STATUS_KEEPS

    def __init__(self, gates: FeatureGates, rules: DeviceRules) -> None:
        self._gates, self._rules = gates, rules

    def default(self, new: Object) -> None:
        CLAIM.apply(new)

    def prepare_create(self, new: Object) -> None:
        new["status"] = {}
        disabled.drop_from_claim(self._gates, new)

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        super().prepare_update(new, old, subresource)
        if subresource:
            disabled.drop_from_claim_status(self._gates, new, old)
            _drop_deallocated(new, old)
        else:
            disabled.drop_from_claim(self._gates, new, old)

    def validate(self, new: Object) -> list[Cause]:
        return validate_claim(new, self._rules)

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        return validate_claim_status(new, old) if subresource else validate_same_spec(new, old)


class ResourceClaimTemplateStrategy(Strategy):
    """ResourceClaimTemplates: immutable specifications of the claims of pods."""

    def __init__(self, gates: FeatureGates, rules: DeviceRules) -> None:
        self._gates, self._rules = gates, rules

    def default(self, new: Object) -> None:
        TEMPLATE.apply(new)

    def prepare_create(self, new: Object) -> None:
        disabled.drop_from_claim(self._gates, new)

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        disabled.drop_from_claim(self._gates, new, old)

    def validate(self, new: Object) -> list[Cause]:
        return validate_template(new, self._rules)

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        return validate_template(new, self._rules) + validate_same_spec(new, old)


class ResourceSliceStrategy(Strategy):
    """ResourceSlices: the devices that drivers publish."""

    counted = ("spec",)

    def __init__(self, gates: FeatureGates, identity: Identity) -> None:
        self._gates, self._identity = gates, identity

    def default(self, new: Object) -> None:
        SLICE.apply(new)

    def prepare_create(self, new: Object) -> None:
        disabled.drop_from_slice(self._gates, new)

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        disabled.drop_from_slice(self._gates, new, old)

    def validate(self, new: Object) -> list[Cause]:
        return validate_slice(new.get("spec") or {}, self._identity)

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        return validate_slice(new.get("spec") or {}, self._identity, old.get("spec") or {})

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        driver = new["spec"].get("driver") or ""
        if driver == driver.lower():
            return []
        return [f"spec.driver: driver names should be lowercase; {quote(driver)} contains uppercase characters"]


class FlatStrategy(Strategy):
    """A strategy for objects in ``v1beta1``: its rules are those of another one for the structure of ``v1``."""

    def __init__(self, kind: str, strategy: Strategy) -> None:
        self._kind, self._strategy = kind, strategy
        self.counted, self.status_keeps = strategy.counted, strategy.status_keeps

    def default(self, new: Object) -> None:
        structured = self._structured(new)
        self._strategy.default(structured)
        self._replace(new, structured)

    def prepare_create(self, new: Object) -> None:
        structured = self._structured(new)
        self._strategy.prepare_create(structured)
        self._replace(new, structured)

    def validate(self, new: Object) -> list[Cause]:
        return self._strategy.validate(self._structured(new))

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        structured = self._structured(new)
        self._strategy.prepare_update(structured, self._structured(old), subresource)
        self._replace(new, structured)

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        return self._strategy.validate_update(self._structured(new), self._structured(old), subresource)

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        return self._strategy.warnings(new, old)

    def _structured(self, obj: Object) -> Object:
        return device_versions.nested(obj, self._kind)

    def _replace(self, new: Object, structured: Object) -> None:
        flat = device_versions.flattened(structured, self._kind)
        if flat is not new:  # Some kinds have the same structure in all versions.
            new.clear()
            new.update(flat)


def versions(release: Release) -> tuple[str, ...]:
    """Return the API versions of *release*, latest first."""
    return tuple(version for version, first in _FIRST_RELEASES.items() if release >= first)


def resources(settings: KindSettings) -> list[Resource]:
    if not settings.gates.enabled("DynamicResourceAllocation"):
        return []
    offered = versions(settings.compatibility_version)
    rules = [taint_rules(settings.identity)] if settings.gates.enabled("DRADeviceTaintRules") else []
    return rules + [item for version in offered for item in _of_version(version, offered, settings)]


def _of_version(version: str, offered: tuple[str, ...], settings: KindSettings) -> list[Resource]:
    gates, identity, group = settings.gates, settings.identity, settings.identity.group("resource")
    rules = DeviceRules(identity, gates.enabled("DRAConsumableCapacity"))

    def declare(kind: str, plural: str, strategy: Strategy, **details: object) -> Resource:
        deprecation = None
        if version in _DEPRECATIONS:
            deprecation = Deprecation(*_DEPRECATIONS[version], f"{group}/v1 {kind}")
        options: dict[str, object] = {
            "strategy": FlatStrategy(kind, strategy) if version == device_versions.FLAT else strategy,
            "convert": partial(device_versions.convert, group, version),
            "renamed_fields": {f"{group}/{other}": {} for other in offered if other != version},
            "hashed_version": offered[0],
            "deprecation": effective(deprecation, settings.compatibility_version),
            "returns_deleted": True,
            "columns": (NAME, AGE),
        }
        return Resource(group, version, kind, plural, **{**options, **details})  # type: ignore[arg-type]

    return [
        declare(
            "DeviceClass",
            "deviceclasses",
            DeviceClassStrategy(gates, rules),
            namespaced=False,
            metadata_rules=MetadataRules(generated_names=False),
        ),
        declare(
            "ResourceClaim",
            "resourceclaims",
            ResourceClaimStrategy(gates, rules),
            subresources=(Subresource("status"),),
            reset_fields={"": ("status",), "status": ("spec", "metadata")},
            columns=(NAME, Column("State", _state, description="Summary of the state."), AGE),
        ),
        declare("ResourceClaimTemplate", "resourceclaimtemplates", ResourceClaimTemplateStrategy(gates, rules)),
        declare(
            "ResourceSlice",
            "resourceslices",
            ResourceSliceStrategy(gates, identity),
            namespaced=False,
            metadata_rules=MetadataRules(whole=0),
            fields={"spec.nodeName": ("spec", "nodeName"), "spec.driver": ("spec", "driver")},
            columns=(
                NAME,
                at("Node", "spec.nodeName", default=""),
                at("Driver", "spec.driver"),
                at("Pool", "spec.pool.name"),
                AGE,
            ),
        ),
    ]


def _state(claim: Object) -> str:
    """Return the state of a claim as tables list it."""
    deleted, status = "deletionTimestamp" in claim["metadata"], claim.get("status") or {}
    states = ["deleted"] if deleted else []
    if status.get("allocation") is not None:
        states += ["allocated", *(["reserved"] if status.get("reservedFor") else [])]
    elif not deleted:
        states.append("pending")
    return ",".join(states)


def _drop_deallocated(new: Object, old: Object) -> None:
    """Drop the status of devices that *new* no longer has."""
    results = [
        {device_key(item) for item in dig(obj, ("status", "allocation", "devices", "results")) or ()}
        for obj in (new, old)
    ]
    status, removed = new.get("status") or {}, results[1] - results[0]
    if not removed or not status.get("devices"):
        return
    kept = [item for item in status["devices"] if device_key(item) not in removed]
    new["status"] = {**status, "devices": kept} if kept else {k: v for k, v in status.items() if k != "devices"}
