"""Pods as the API server stores them, for the tests of their rules."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from apiserver_stub.apimachinery.status import Cause
from apiserver_stub.defaulting.pod_spec import POD
from apiserver_stub.schema import field_validation, shapes


def pod(*, metadata: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """Return a decoded pod with defaults; *spec* replaces fields of a minimal one."""
    made: dict[str, Any] = {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": "web", "namespace": "default", **(metadata or {})},
        "spec": {"containers": [{"name": "web", "image": "web:1"}], **spec},
        "status": {"phase": "Pending"},
    }
    shape = shapes.of("v1", "Pod", "k8s.io")
    assert shape is not None
    field_validation.check(made, shape, complete=True)
    POD.apply(made)
    return made


def container(**fields: Any) -> dict[str, Any]:
    """Return a container as a client sends it."""
    return {"name": "web", "image": "web:1", **fields}


def found(causes: Iterable[Cause]) -> list[str]:
    """Return reason and field of each cause."""
    return [f"{cause.reason.removeprefix('FieldValue')} {cause.field}" for cause in causes]
