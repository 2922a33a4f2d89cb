"""Tests for unset creation timestamps of embedded objects."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.schema import shapes
from apiserver_stub.schema.null_times import omit_null_times, unset_creation_time


def template(**metadata: Any) -> dict[str, Any]:
    return {"metadata": {"creationTimestamp": None, **metadata}, "spec": {}}


@pytest.mark.parametrize(
    ("kind", "path"),
    [("PodTemplate", ("template",)), ("Pod", ("spec", "volumes", 0, "ephemeral", "volumeClaimTemplate"))],
)
def test_embedded_metadata_has_no_null_time(kind: str, path: tuple[str | int, ...]) -> None:
    obj: Any = template(labels={"a": "b"})
    for name in reversed(path):
        obj = [obj] if isinstance(name, int) else {name: obj}

    omit_null_times(obj, shapes.of("v1", kind, "k8s.io"))

    for name in path:
        obj = obj[name]
    assert obj == {"metadata": {"labels": {"a": "b"}}, "spec": {}}


def test_set_times_and_objects_without_schema_are_unchanged() -> None:
    pod, other = {"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}}, {"metadata": {"creationTimestamp": None}}

    omit_null_times(pod, shapes.of("v1", "Pod", "k8s.io"))
    omit_null_times(other, None)

    assert pod["metadata"] == {"creationTimestamp": "2026-01-01T00:00:00Z"}
    assert other == {"metadata": {"creationTimestamp": None}}


def test_metadata_of_objects_that_were_never_created() -> None:
    assert unset_creation_time(shows_null=True) == {"creationTimestamp": None}
    assert unset_creation_time(shows_null=False) == {}
