"""Validation of object metadata: names, labels, annotations, owner references, finalizers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from apiserver_stub.objects import Object
from apiserver_stub.status import Cause, forbidden_value, invalid_value, required, too_long
from apiserver_stub.validation.labels import validate_labels
from apiserver_stub.validation.names import finalizer_problems, qualified_name_problems, subdomain_problems

ANNOTATIONS_LIMIT_BYTES = 256 << 10


def validate_metadata(metadata: Object, problems_of: Callable[[str], list[str]] = subdomain_problems) -> list[Cause]:
    """Return what is wrong with the metadata of a new object or a changed one; *problems_of* judges names."""
    name = metadata.get("name") or ""
    causes = []
    if generate := metadata.get("generateName"):
        causes += [
            invalid_value("metadata.generateName", generate, problem)
            for problem in problems_of(generate.rstrip("-.") or generate)
        ]
    if name:
        causes += [invalid_value("metadata.name", name, problem) for problem in problems_of(name)]
    elif not generate:
        causes.append(required("metadata.name", "name or generateName is required"))
    causes += validate_labels(metadata.get("labels"), "metadata.labels")
    causes += _validate_annotations(metadata.get("annotations"))
    causes += _validate_owners(metadata.get("ownerReferences") or [])
    for index, finalizer in enumerate(metadata.get("finalizers") or []):
        field = f"metadata.finalizers[{index}]"
        causes += [invalid_value(field, finalizer, problem) for problem in finalizer_problems(finalizer)]
    return causes


def validate_metadata_update(new: Object, old: Object, deletion: str | None = None) -> list[Cause]:
    """Return what is wrong with a change of metadata; *deletion* is when the client says that the object goes."""
    detail = "field is immutable"
    causes = [
        invalid_value(f"metadata.{name}", new.get(name), detail)
        for name in ("name", "namespace", "uid", "creationTimestamp")
        if new.get(name) != old.get(name)
    ]
    if deletion and deletion != old.get("deletionTimestamp"):
        shown = deletion.replace("T", " ").replace("Z", " +0000 UTC")
        causes.append(Cause("FieldValueInvalid", f"Invalid value: {shown}: {detail}", "metadata.deletionTimestamp"))
    if "deletionTimestamp" in old:
        causes += _validate_no_new_finalizers(new.get("finalizers") or [], old.get("finalizers") or [])
    return causes


def _validate_no_new_finalizers(new: list[str], old: list[str]) -> list[Cause]:
    added = sorted(set(new) - set(old))
    if not added:
        return []
    shown = ", ".join(f'"{name}"' for name in added)
    detail = "no new finalizers can be added if the object is being deleted, found new finalizers "
    return [forbidden_value("metadata.finalizers", f"{detail}[]string{{{shown}}}")]


def _validate_annotations(annotations: Any) -> list[Cause]:
    causes, size = [], 0
    for key, value in (annotations or {}).items():
        causes += [invalid_value("metadata.annotations", key, text) for text in qualified_name_problems(key.lower())]
        size += len(key.encode()) + len(value.encode())
    if size > ANNOTATIONS_LIMIT_BYTES:
        causes.append(too_long("metadata.annotations", ANNOTATIONS_LIMIT_BYTES))
    return causes


def _validate_owners(owners: list[Object]) -> list[Cause]:
    return [
        invalid_value(f"metadata.ownerReferences.{name}", owner.get(name) or "", f"{text} must not be empty")
        for owner in owners
        for name, text in (("apiVersion", "version"), ("kind", "kind"), ("name", "name"), ("uid", "uid"))
        if not owner.get(name)
    ]
