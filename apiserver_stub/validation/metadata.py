"""Validation of object metadata: names, labels, annotations, owner references, finalizers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from apiserver_stub.objects import Object
from apiserver_stub.status import Cause, forbidden_value, invalid_value, required, too_long
from apiserver_stub.validation.labels import validate_labels
from apiserver_stub.validation.names import (
    path_problems,
    prefix_problems,
    qualified_name_problems,
    standard_finalizer_problems,
    subdomain_problems,
)

ANNOTATIONS_LIMIT_BYTES = 256 << 10

_IMMUTABLE = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
_IMMUTABLE_RULE = "field is immutable"
_EXCLUSIVE_FINALIZERS = ("orphan", "foregroundDeletion")


def validate_metadata(
    metadata: Object,
    problems_of: Callable[[str], list[str]] = subdomain_problems,
    *,
    standard_finalizers: bool = True,
) -> list[Cause]:
    """Return the errors in the metadata of an object; *problems_of* validates names.

    :param standard_finalizers: finalizers without a domain must be standard ones.
    """
    causes = _validate_names(metadata, problems_of) + _validate_content(metadata)
    if finalizers := metadata.get("finalizers"):
        causes += _validate_finalizers(finalizers)
        if standard_finalizers:
            causes += _validate_standard_finalizers(finalizers)
    return causes


def validate_metadata_update(new: Object, old: Object) -> list[Cause]:
    """Return the errors in a change of metadata from *old* to *new*."""
    causes = []
    if "deletionTimestamp" in old:
        causes += _validate_no_new_finalizers(new.get("finalizers") or [], old.get("finalizers") or [])
    for name in _IMMUTABLE:
        if new.get(name) != old.get(name):
            causes.append(_changed(f"metadata.{name}", new.get(name)))
    return causes + _validate_content(new)


def validate_any_update(
    new: Object,
    old: Object,
    problems_of: Callable[[str], list[str]] = subdomain_problems,
    *,
    change: bool = True,
    result: bool = True,
) -> list[Cause]:
    """Return the errors in an update of metadata, as often as upstream reports them.

    Upstream validates the metadata of every update, and most kinds do so again.

    :param change: the rules of the kind include those for changes of metadata.
    :param result: the rules of the kind include those for metadata of new objects.
    """
    causes = validate_metadata(new, path_problems, standard_finalizers=False) + validate_metadata_update(new, old)
    if change:
        causes += validate_metadata_update(new, old)
        causes += _validate_standard_finalizers(new.get("finalizers") or [])
    if result:
        causes += validate_metadata(new, problems_of)
    return causes


def validate_annotations(annotations: Any, field: str) -> list[Cause]:
    """Return the errors in a map of annotations."""
    causes, size = [], 0
    for key, value in (annotations or {}).items():
        causes += [invalid_value(field, key, text) for text in qualified_name_problems(key.lower())]
        size += len(key.encode()) + len(value.encode())
    if size > ANNOTATIONS_LIMIT_BYTES:
        causes.append(too_long(field, ANNOTATIONS_LIMIT_BYTES))
    return causes


def _validate_names(metadata: Object, problems_of: Callable[[str], list[str]]) -> list[Cause]:
    causes = []
    if generate := metadata.get("generateName"):
        field = "metadata.generateName"
        causes += [invalid_value(field, generate, problem) for problem in prefix_problems(generate, problems_of)]
    if name := metadata.get("name"):
        causes += [invalid_value("metadata.name", name, problem) for problem in problems_of(name)]
    else:
        causes.append(required("metadata.name", "name or generateName is required"))
    if (generation := metadata.get("generation") or 0) < 0:
        causes.append(invalid_value("metadata.generation", generation, "must be greater than or equal to 0"))
    return causes


def _validate_content(metadata: Object) -> list[Cause]:
    """Return the errors in labels, annotations and owner references."""
    causes: list[Cause] = []
    if labels := metadata.get("labels"):
        causes += validate_labels(labels, "metadata.labels")
    if annotations := metadata.get("annotations"):
        causes += validate_annotations(annotations, "metadata.annotations")
    if owners := metadata.get("ownerReferences"):
        causes += _validate_owners(owners)
    return causes


def _validate_finalizers(finalizers: list[str]) -> list[Cause]:
    field = "metadata.finalizers"
    causes = [invalid_value(field, name, problem) for name in finalizers for problem in qualified_name_problems(name)]
    if all(name in finalizers for name in _EXCLUSIVE_FINALIZERS):
        detail = "finalizer orphan and foregroundDeletion cannot be both set"
        causes.append(invalid_value(field, finalizers, detail))
    return causes


def _validate_standard_finalizers(finalizers: list[str]) -> list[Cause]:
    return [
        invalid_value(f"metadata.finalizers[{index}]", name, problem)
        for index, name in enumerate(finalizers)
        for problem in standard_finalizer_problems(name)
    ]


def _validate_no_new_finalizers(new: list[str], old: list[str]) -> list[Cause]:
    added = sorted(set(new) - set(old))
    if not added:
        return []
    shown = ", ".join(f'"{name}"' for name in added)
    detail = "no new finalizers can be added if the object is being deleted, found new finalizers "
    return [forbidden_value("metadata.finalizers", f"{detail}[]string{{{shown}}}")]


def _changed(field: str, value: Any) -> Cause:
    if field.endswith("Timestamp") and value is not None:
        shown = value.replace("T", " ").replace("Z", " +0000 UTC")
        return Cause("FieldValueInvalid", f"Invalid value: {shown}: {_IMMUTABLE_RULE}", field)
    return invalid_value(field, value, _IMMUTABLE_RULE)


def _validate_owners(owners: list[Object]) -> list[Cause]:
    field = "metadata.ownerReferences"
    causes: list[Cause] = []
    controller = ""
    for owner in owners:
        for name, text in (("apiVersion", "version"), ("kind", "kind"), ("name", "name"), ("uid", "uid")):
            value = owner.get(name) or ""
            if not value or (name == "apiVersion" and (value.endswith("/") or value.count("/") > 1)):
                causes.append(invalid_value(f"{field}.{name}", value, f"{text} must not be empty"))
        if (owner.get("apiVersion"), owner.get("kind")) == ("v1", "Event"):
            causes.append(invalid_value(field, owner, "/v1, Kind=Event is disallowed from being an owner"))
        if owner.get("controller"):
            current = f"{owner.get('kind') or ''}/{owner.get('name') or ''}"
            if controller:
                detail = 'Only one reference can have Controller set to true. Found "true" in references for '
                causes.append(invalid_value(field, owners, f"{detail}{controller} and {current}"))
            else:
                controller = current
    return causes
