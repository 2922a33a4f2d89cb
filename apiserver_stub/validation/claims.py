"""Validation of persistent volume claims, and warnings about them."""

from __future__ import annotations

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.apimachinery.status import Cause, forbidden_value, invalid_each, invalid_value, not_supported
from apiserver_stub.validation.claim_spec import claim_spec_warnings, validate_claim_spec
from apiserver_stub.validation.labels import validate_selector
from apiserver_stub.validation.metadata import repetitions
from apiserver_stub.validation.persistent_volumes import (
    storage_class_annotation,
    storage_class_annotation_warning,
    validate_attributes_class_update,
    validate_basic_amount,
)
from apiserver_stub.validation.quantities import amount, is_native, validate_nonnegative_amount
from nodeagent.base.identity import Identity
from nodeagent.base.names import qualified_name_problems
from nodeagent.base.quantity import Quantity
from nodeagent.base.release import OLDEST, Release
from nodeagent.base.structs import Struct

_CLASS = "volumeAttributesClassName"
_STORAGE = ("resources", "requests", "storage")
_RESIZE_STATUSES = ("ControllerResizeInProgress", "NodeResizeInProgress", "NodeResizePending")
_FAILED_STATUSES = ("ControllerResizeFailed", "NodeResizeFailed")
_INFEASIBLE_STATUSES = ("ControllerResizeInfeasible", "NodeResizeInfeasible")
_INFEASIBLE_SINCE = Release(1, 32)
"""First release that names the statuses of failed expansions ``Infeasible``."""
_NAMED_AS_FIELD = Release(1, 36)
"""First release whose errors name ``allocatedResourceStatuses`` correctly."""
_IMMUTABLE_SPEC = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
)


class ClaimOptions(Struct, frozen=True):
    """Settings of the validation of claims."""

    identity: Identity
    attributes_class: bool = False
    """Claims have a class of attributes (spec: gate.VolumeAttributesClass)."""
    recovery: bool = False
    """A failed expansion may be retried with less (spec: gate.RecoverVolumeExpansionFailure)."""
    release: Release = OLDEST

    @property
    def resize_statuses(self) -> tuple[str, ...]:
        """The valid values of ``allocatedResourceStatuses``, sorted."""
        failed = _INFEASIBLE_STATUSES if self.release >= _INFEASIBLE_SINCE else _FAILED_STATUSES
        return tuple(sorted((*_RESIZE_STATUSES, *failed)))


def validate_claim(new: Object, options: ClaimOptions) -> list[Cause]:
    """Return the errors in the specification of a new claim."""
    return validate_claim_spec(new["spec"], "spec", volume_attributes_class=options.attributes_class)


def validate_claim_update(new: Object, old: Object, options: ClaimOptions) -> list[Cause]:
    """Return the errors in the change of a claim: it is bound once, and may then grow."""
    spec, before = new["spec"], old.get("spec") or {}
    attributes_class = options.attributes_class or before.get(_CLASS) is not None
    causes = validate_claim_spec(
        spec,
        "spec",
        any_selector_values=bool(validate_selector(before.get("selector"), "")),
        any_api_groups=any(dig(before, (name, "apiGroup")) is not None for name in ("dataSource", "dataSourceRef")),
        volume_attributes_class=attributes_class,
    )
    causes *= repetitions(options.release)
    causes += _validate_class_annotation(new, old, options.identity)
    if _comparable(new, old, options.identity) != _comparable(old, old, options.identity, target=new):
        causes.append(forbidden_value("spec", _IMMUTABLE_SPEC))
    causes += _validate_shrinking(new, old, recovery=_recovers(old, options))
    if spec.get("volumeMode") != before.get("volumeMode"):
        causes.append(invalid_value("volumeMode", spec.get("volumeMode"), "field is immutable"))
    causes += validate_attributes_class_update(
        spec, before, gate=options.attributes_class, attributes_class=attributes_class
    )
    if attributes_class and before.get(_CLASS) and spec.get(_CLASS) == "":
        detail = "update from non-nil value to an empty string is forbidden"
        causes.append(forbidden_value(f"spec.{_CLASS}", detail))
    return causes


def validate_claim_status(status: Object, old: Object, options: ClaimOptions) -> list[Cause]:
    """Return the errors in the status of a claim; *old* is the stored claim."""
    causes: list[Cause] = []
    for name, text in (status.get("capacity") or {}).items():
        causes += validate_basic_amount(text, f"status.capacity[{name}]")
    if not _recovers(old, options):
        return causes
    field = (
        "status.allocatedResourceStatuses" if options.release >= _NAMED_AS_FIELD else "status.allocatedResourceStatus"
    )
    for name, state in (status.get("allocatedResourceStatuses") or {}).items():
        causes += _validate_resource(name, field, options.identity.label_domain)
        if state not in options.resize_statuses:
            causes.append(not_supported(field, name, options.resize_statuses))
    field = "status.allocatedResources"
    for name, text in (status.get("allocatedResources") or {}).items():
        path = f"{field}[{name}]"
        errors = _validate_resource(name, field, options.identity.label_domain)
        causes += errors or validate_basic_amount(text, path) or validate_nonnegative_amount(text, path)
    return causes


def claim_warnings(new: Object, identity: Identity) -> list[str]:
    """Return the warnings about a claim: a deprecated annotation, and amounts with a fraction."""
    found = []
    if storage_class_annotation(identity) in (new["metadata"].get("annotations") or {}):
        found.append(storage_class_annotation_warning(identity))
    return found + claim_spec_warnings(new["spec"], "spec")


def _recovers(old: Object, options: ClaimOptions) -> bool:
    status = old.get("status") or {}
    return options.recovery or bool(status.get("allocatedResources") or status.get("allocatedResourceStatuses"))


def _class_annotation(claim: Object, identity: Identity) -> str | None:
    annotations: dict[str, str] = claim["metadata"].get("annotations") or {}
    return annotations.get(storage_class_annotation(identity))


def _moves_class(new: Object, old: Object, identity: Identity) -> bool:
    """Return whether the storage class moves from the deprecated annotation to its field."""
    annotation, name = _class_annotation(old, identity), new["spec"].get("storageClassName")
    return (
        annotation is not None
        and old["spec"].get("storageClassName") is None
        and name == annotation
        and _class_annotation(new, identity) in (None, annotation)
    )


def _validate_class_annotation(new: Object, old: Object, identity: Identity) -> list[Cause]:
    value = _class_annotation(new, identity) or ""
    if _moves_class(new, old, identity) or value == (_class_annotation(old, identity) or ""):
        return []
    return [invalid_value(f"metadata.annotations.{storage_class_annotation(identity)}", value, "field is immutable")]


def _comparable(claim: Object, old: Object, identity: Identity, target: Object | None = None) -> Object:
    """Return the fields of the specification that an update must not change.

    :param target: the updated claim, where *claim* is the stored one.
    """
    new = target or claim
    before: Object = old["spec"]
    spec: Object = objects.clone(claim["spec"])
    if dig(new, ("status", "phase")) == "Bound":
        spec.pop(_CLASS, None)
    if not before.get("volumeName"):
        spec.pop("volumeName", None)
    name, annotation = new["spec"].get("storageClassName"), _class_annotation(old, identity)
    assigned = name is not None and before.get("storageClassName") is None and annotation in (None, name)
    if _moves_class(new, old, identity) or assigned:
        spec.pop("storageClassName", None)
    resources = spec.get("resources") or {}
    amounts = {kind: resources.get(kind) or {} for kind in ("requests", "limits")}
    if dig(new, ("status", "phase")) == "Bound" and dig(new, ("spec", "resources", "requests")):
        amounts["requests"].pop("storage", None)
    spec["resources"] = {
        **resources,
        **{kind: {key: amount(text) for key, text in found.items()} for kind, found in amounts.items()},
    }
    return spec


def _validate_shrinking(new: Object, old: Object, *, recovery: bool) -> list[Cause]:
    size, before = (_size(dig(claim["spec"], _STORAGE)) for claim in (new, old))
    field = "spec.resources.requests.storage"
    if size >= before:
        return []
    if not recovery:
        return [forbidden_value(field, "field can not be less than previous value")]
    if size > _size(dig(old, ("status", "capacity", "storage"))):
        return []
    return [forbidden_value(field, "field can not be less than status.capacity")]


def _size(text: str | None) -> Quantity:
    return amount(text) if text else Quantity()


def _validate_resource(name: str, field: str, label_domain: str) -> list[Cause]:
    if causes := invalid_each(field, name, qualified_name_problems(name)):
        return causes
    return [not_supported(field, name, ("storage",))] if is_native(name, label_domain) and name != "storage" else []
