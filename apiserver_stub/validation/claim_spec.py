"""Validation of the spec of persistent volume claims, and of claim templates in ephemeral volumes."""

from __future__ import annotations

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import (
    Cause,
    forbidden_value,
    invalid_each,
    invalid_value,
    not_supported,
    required,
)
from apiserver_stub.validation.labels import validate_labels, validate_selector
from apiserver_stub.validation.metadata import validate_annotations
from apiserver_stub.validation.quantities import is_fractional_bytes, validate_positive_amount
from nodeagent.base.names import label_problems, subdomain_problems

ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
VOLUME_MODES = ("Block", "Filesystem")

_NOT_IN_TEMPLATES = (
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "ownerReferences",
    "finalizers",
    "managedFields",
)
_SPELLINGS = {"uid": "uID"}


def validate_claim_template(template: Object, field: str, *, volume_attributes_class: bool = False) -> list[Cause]:
    """Return the errors in a claim template, whose metadata has labels and annotations only."""
    causes = validate_template_metadata(template.get("metadata") or {}, f"{field}.metadata")
    spec = template.get("spec") or {}
    return causes + validate_claim_spec(spec, f"{field}.spec", volume_attributes_class=volume_attributes_class)


def validate_template_metadata(metadata: Object, field: str) -> list[Cause]:
    """Return the errors in the metadata of a claim template: only labels and annotations may be set."""
    causes = validate_annotations(metadata.get("annotations"), f"{field}.annotations")
    causes += validate_labels(metadata.get("labels"), f"{field}.labels")
    return causes + [
        forbidden_value(f"{field}.{_SPELLINGS.get(name, name)}", "cannot be set")
        for name in _NOT_IN_TEMPLATES
        if metadata.get(name) not in (None, "", 0) or (name == "deletionGracePeriodSeconds" and name in metadata)
    ]


def validate_claim_spec(
    spec: Object,
    field: str,
    *,
    any_selector_values: bool = False,
    any_api_groups: bool = False,
    volume_attributes_class: bool = False,
) -> list[Cause]:
    """Return the errors in the spec of a claim.

    :param any_selector_values: do not validate the values of the label selector.
    :param any_api_groups: do not validate the API groups of data sources.
    :param volume_attributes_class: validate the name of the class (spec: gate.VolumeAttributesClass).
    """
    modes = spec.get("accessModes")
    causes = [] if modes else [required(f"{field}.accessModes", "at least 1 access mode is required")]
    causes += validate_selector(spec.get("selector"), f"{field}.selector", any_values=any_selector_values)
    causes += validate_access_modes(modes or [], f"{field}.accessModes")
    causes += _validate_storage(spec, f"{field}.resources[storage]")
    causes += _validate_class(spec, "storageClassName", field)
    if (mode := spec.get("volumeMode")) is not None and mode not in VOLUME_MODES:
        causes.append(not_supported(f"{field}.volumeMode", mode, VOLUME_MODES))
    causes += _validate_data_sources(spec, field, any_api_groups=any_api_groups)
    if volume_attributes_class:
        causes += _validate_class(spec, "volumeAttributesClassName", field)
    return causes


def validate_access_modes(modes: list[str], field: str) -> list[Cause]:
    """Return the errors in the access modes of a volume or a claim."""
    causes = [not_supported(field, mode, ACCESS_MODES) for mode in modes if mode not in ACCESS_MODES]
    known = {mode for mode in modes if mode in ACCESS_MODES}
    if "ReadWriteOncePod" in known and len(known) > 1:
        causes.append(forbidden_value(field, "may not use ReadWriteOncePod with other access modes"))
    return causes


def claim_spec_warnings(spec: Object, field: str) -> list[str]:
    """Return the warnings about the spec of a claim: amounts of storage with a fraction."""
    return [
        f'{field}.resources.{kind}[storage]: fractional byte value "{text}" is invalid, must be an integer'
        for kind in ("requests", "limits")
        if (text := ((spec.get("resources") or {}).get(kind) or {}).get("storage")) and is_fractional_bytes(text)
    ]


def _validate_storage(spec: Object, field: str) -> list[Cause]:
    text = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if text is None:
        return [required(field)]
    return validate_positive_amount(text, field)


def _validate_class(spec: Object, name: str, field: str) -> list[Cause]:
    value = spec.get(name)
    return invalid_each(f"{field}.{name}", value, subdomain_problems(value)) if value else []


def _validate_data_sources(spec: Object, field: str, *, any_api_groups: bool) -> list[Cause]:
    source, ref = spec.get("dataSource"), spec.get("dataSourceRef")
    causes = []
    if source is not None:
        causes += _validate_data_source(source, f"{field}.dataSource", any_api_groups=any_api_groups)
    if ref is None:
        return causes
    causes += _validate_data_source(ref, f"{field}.dataSourceRef", any_api_groups=any_api_groups)
    namespace = ref.get("namespace")
    if namespace:
        causes += invalid_each(f"{field}.dataSourceRef.namespace", namespace, label_problems(namespace))
    if source is None:
        return causes
    if namespace:
        detail = "may not be specified when dataSourceRef.namespace is specified"
        causes.append(invalid_value(field, f"{field}.dataSource", detail))
    elif any((source.get(name)) != ref.get(name) for name in ("apiGroup", "kind", "name")):
        causes.append(invalid_value(field, f"{field}.dataSource", "must match dataSourceRef"))
    return causes


def _validate_data_source(source: Object, field: str, *, any_api_groups: bool) -> list[Cause]:
    group, kind = source.get("apiGroup") or "", source.get("kind") or ""
    causes = [required(f"{field}.{name}") for name in ("name", "kind") if not source.get(name)]
    if not group and kind != "PersistentVolumeClaim":
        detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        causes.append(invalid_value(field, kind, detail))
    if group and not any_api_groups:
        causes += invalid_each(f"{field}.apiGroup", group, subdomain_problems(group))
    return causes
