"""Tests for the cache of properties of resources."""

from __future__ import annotations

import gc
import weakref

from apiserver_stub.kinds.registry import Resource
from apiserver_stub.verbs.resource_cache import resource_cache


def test_results_are_cached_by_resource_and_arguments() -> None:
    calls: list[tuple[str, str]] = []

    @resource_cache
    def path(resource: Resource, subresource: str) -> str:
        calls.append((resource.plural, subresource))
        return f"{resource.plural}/{subresource}"

    pods, nodes = Resource("", "v1", "Pod", "pods"), Resource("", "v1", "Node", "nodes")
    for resource, subresource in ((pods, "status"), (pods, "log"), (nodes, "status"), (pods, "status")):
        assert path(resource, subresource) == f"{resource.plural}/{subresource}"
    assert calls == [("pods", "status"), ("pods", "log"), ("nodes", "status")]


def test_removed_resource_is_freed() -> None:
    removed = Resource("example.com", "v1", "Widget", "widgets")
    kind = resource_cache(lambda resource: [resource.kind])
    result, freed = kind(removed), weakref.ref(removed)

    del removed
    gc.collect()

    assert freed() is None
    assert result == ["Widget"]
