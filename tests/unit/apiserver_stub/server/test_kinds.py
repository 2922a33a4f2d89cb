"""Tests for the registration of kinds of plugins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pluggy
import pytest

from apiserver_stub import hookimpl, hookspecs
from apiserver_stub.kinds.registry import Resource, Subresource
from apiserver_stub.options import parse
from apiserver_stub.plugins import PluginError
from apiserver_stub.server.kinds import build_registry


def plugins(*resources: Any) -> pluggy.PluginManager:
    """Return a plugin manager with one plugin, which provides *resources*."""

    class Plugin:
        @hookimpl
        def nodeagent_apiserver_kinds(self) -> Sequence[Any]:
            return resources

    manager = pluggy.PluginManager("nodeagent_apiserver")
    manager.add_hookspecs(hookspecs)
    manager.register(Plugin(), "p")
    return manager


def widget(version: str = "v1", **fields: Any) -> Resource:
    return Resource("example.com", version, "Widget", "widgets", **fields)


def test_kinds_of_plugins_are_stored_below_their_group() -> None:
    found = build_registry(parse([]), plugins(widget())).find("example.com", "v1", "widgets")

    assert found is not None and found.storage_key == "example.com/widgets"


@pytest.mark.parametrize(
    ("resource", "problem"),
    [
        (Resource("", "v1", "Pod", "pods"), "pods of v1 is already served"),
        (widget(storage_key="pods"), "widgets of example.com/v1 uses the storage keys of another resource"),
        (widget("one"), "the version must have the form v1, v1beta1 or v1alpha1"),
        (widget(subresources=(Subresource("scale"),)), "only the subresource status is supported, not scale"),
        ("widgets", "not an apiserver_stub.kinds.registry.Resource: 'widgets'"),
    ],
)
def test_invalid_kind_of_a_plugin_is_rejected(resource: Any, problem: str) -> None:
    with pytest.raises(PluginError, match=f"plugin p: .*{problem}"):
        build_registry(parse([]), plugins(resource))
