"""Tests for the shapes of kinds."""

from __future__ import annotations

from apiserver_stub.schema import shapes
from apiserver_stub.schema.shapes import Form


def test_fields_of_a_plain_type_share_one_shape() -> None:
    pod, secret = (shapes.of("v1", kind, "k8s.io") for kind in ("Pod", "Secret"))
    assert pod is not None
    assert secret is not None

    parts = [pod.members["kind"], pod.members["metadata"].child("name"), secret.members["type"]]

    assert {part.form for part in parts} == {Form.TEXT}
    assert len({id(part) for part in parts}) == 1
