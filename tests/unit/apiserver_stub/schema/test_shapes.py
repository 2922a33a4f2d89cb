"""Tests for the shapes of kinds."""

from __future__ import annotations

import gc
import weakref

import pytest

from apiserver_stub.schema import shapes
from apiserver_stub.schema.shapes import Form


def test_fields_of_a_plain_type_share_one_shape() -> None:
    pod, secret = (shapes.of("v1", kind, "k8s.io") for kind in ("Pod", "Secret"))
    assert pod is not None
    assert secret is not None

    parts = [pod.members["kind"], pod.members["metadata"].child("name"), secret.members["type"]]

    assert {part.form for part in parts} == {Form.TEXT}
    assert len({id(part) for part in parts}) == 1


@pytest.mark.parametrize("kind", ["Unknown", "DeleteOptions"])
def test_api_versions_that_clients_choose_are_not_kept(kind: str) -> None:
    class Text(str):
        pass

    version = Text("example.com/v1")
    kept = weakref.ref(version)
    shapes.of(version, kind, "k8s.io")

    del version
    gc.collect()
    assert kept() is None
