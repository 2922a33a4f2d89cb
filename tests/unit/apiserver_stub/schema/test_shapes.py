"""Tests for the shapes of kinds."""

from __future__ import annotations

import gc
import weakref
from typing import Any

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


@pytest.mark.parametrize(
    ("name", "minor", "expected"),
    [
        ("resources", 31, False),
        ("resources", 32, True),
        ("hostnameOverride", 33, False),
        ("hostnameOverride", 34, True),
        ("containers", 29, True),
        ("resources", None, True),
    ],
)
def test_fields_exist_from_the_release_that_added_them(name: str, minor: int | None, *, expected: bool) -> None:
    pod = shapes.of("v1", "Pod", "k8s.io")
    assert pod is not None

    assert (name in pod.child("spec").members_at(minor)) is expected


@pytest.fixture
def uncached(monkeypatch: pytest.MonkeyPatch) -> None:
    """Build all shapes again."""
    monkeypatch.setattr(shapes, "_objects", {})
    monkeypatch.setattr(shapes, "_with_type", shapes._with_type.__wrapped__)


@pytest.mark.usefixtures("uncached")
@pytest.mark.parametrize(
    ("version", "kind", "path", "leaf"),
    [
        ("v1", "Service", ("spec", "selector"), True),
        ("v1", "Service", ("metadata", "labels"), False),
        ("v1", "Service", ("spec", "ports"), False),
        ("v1", "Service", ("spec", "externalIPs"), True),
        ("v1", "Node", ("status", "volumesInUse"), True),
        ("v1", "Pod", ("metadata", "finalizers"), False),
        ("v1", "PersistentVolumeClaim", ("status", "allocatedResourceStatuses"), False),
        ("v1", "PersistentVolumeClaim", ("spec", "selector"), True),
        ("apps/v1", "Deployment", ("spec", "template"), False),
    ],
)
def test_atomic_values_have_one_owner(version: str, kind: str, path: tuple[str, ...], *, leaf: bool) -> None:
    shape: Any = shapes.of(version, kind, "k8s.io")
    for name in path:
        shape = shape.members[name]

    assert shape.leaf is leaf


def test_walk_yields_each_object_below_a_shape_once() -> None:
    pod = shapes.of("v1", "Pod", "k8s.io")
    assert pod is not None

    names = [shape.name for shape in shapes.walk(pod)]
    assert len(names) == len(set(names))
    assert {"Pod", "PodSpec", "Container", "ContainerPort", "EnvVar", "PodStatus", "PodIP"} <= set(names)
    assert {shape.name for shape in shapes.walk(pod, 29)} < set(names)
