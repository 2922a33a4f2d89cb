"""Tests for storage keys, which equal kube-apiserver's."""

from __future__ import annotations

import pytest

from apiserver_stub.options import Options
from apiserver_stub.server.kinds import build_registry
from apiserver_stub.storage.layout import Layout


@pytest.fixture
def layout() -> Layout:
    return Layout.of("/registry", build_registry(Options()))


@pytest.mark.parametrize(
    ("name", "key", "location"),
    [
        ("core/nodes", "n1", "/registry/minions/n1"),
        ("core/pods", "ns/p", "/registry/pods/ns/p"),
        ("core/services", "ns/s", "/registry/services/specs/ns/s"),
        ("core/endpoints", "ns/s", "/registry/services/endpoints/ns/s"),
        ("core/events", "ns/e", "/registry/events/ns/e"),
        ("networking.k8s.io/ingresses", "ns/i", "/registry/ingress/ns/i"),
        ("core/ranges", "serviceips", "/registry/ranges/serviceips"),
        ("coordination.k8s.io/leases", "ns/l", "/registry/leases/ns/l"),
        ("example.com/widgets", "ns/w", "/registry/example.com/widgets/ns/w"),
    ],
)
def test_storage_key_of_an_object(layout: Layout, name: str, key: str, location: str) -> None:
    assert layout.full_key(name, key) == location
    assert layout.find(location) == (name, key)


@pytest.mark.parametrize(
    "location",
    ["/registry/ranges/", "/registry/unknown/a/b", "/registry/pods/", "/other/pods/a/b", "x"],
)
def test_keys_of_unserved_kinds_are_ignored(layout: Layout, location: str) -> None:
    assert layout.find(location) is None


@pytest.mark.parametrize("prefix", ["registry", "/registry", "/registry/"])
def test_prefix_starts_with_a_slash(prefix: str) -> None:
    assert Layout(prefix, {}).full_key("core/pods", "a/b") == "/registry/pods/a/b"


def test_partial_layout_contains_only_its_resources(layout: Layout) -> None:
    location = "/registry/events/ns/e"

    assert layout.only(["core/events"]).find(location) == ("core/events", "ns/e")
    assert layout.without(["core/events"]).find(location) is None
    assert layout.only(["core/events"]).find("/registry/pods/a/b") is None
    assert layout.only(["core/events"]).find("/registry/example.com/widgets/a/b") is None
