"""Validation of namespaces."""

from __future__ import annotations

from collections.abc import Sequence

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, invalid_each, invalid_value
from apiserver_stub.validation.names import finalizer_problems

_FINALIZERS = "spec.finalizers"


def validate_namespace(namespace: Object) -> list[Cause]:
    """Return the errors in a namespace, metadata aside."""
    finalizers = (namespace.get("spec") or {}).get("finalizers") or ()
    return [cause for name in finalizers for cause in invalid_each(_FINALIZERS, name, finalizer_problems(name))]


def validate_finalizers(finalizers: Sequence[str]) -> list[Cause]:
    """Return the errors in the changed finalizers of a namespace."""
    return [
        cause
        for index, name in enumerate(finalizers)
        for cause in invalid_each(f"{_FINALIZERS}[{index}]", name, finalizer_problems(name))
    ]


def validate_phase(namespace: Object) -> list[Cause]:
    """Return the error in a changed phase, which follows from the deletion."""
    phase = (namespace.get("status") or {}).get("phase") or ""
    is_deleted = "deletionTimestamp" in namespace["metadata"]
    if phase == ("Terminating" if is_deleted else "Active"):
        return []
    detail = "may only be 'Active' if `deletionTimestamp` is empty"
    if is_deleted:
        detail = "may only be 'Terminating' if `deletionTimestamp` is not empty"
    return [invalid_value("status.Phase", phase, detail)]
