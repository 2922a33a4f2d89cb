"""Tests for the registry of plugins: objects of a plugin, their names and versions, and the owner of a source file."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nodeagent import hookimpl, hookspec
from nodeagent.errors import PluginError
from nodeagent.pluginmanager.registry import PluginRegistry


class Admits:
    @hookimpl
    async def nodeagent_admit_pod(self): ...


class Observes:
    @hookimpl
    async def nodeagent_pod_terminated(self): ...


class TooNew(Admits):
    nodeagent_api = ("98.0", "99.0")


class ShelfHooks:
    @hookspec
    def shelf_provide_labels(self) -> list[str] | None:
        """Return labels."""


class Shelf:
    @hookimpl
    def nodeagent_addhooks(self):
        return ShelfHooks()


@pytest.fixture
def registry() -> PluginRegistry:
    return PluginRegistry()


def called(registry: PluginRegistry, hook: str = "nodeagent_admit_pod") -> list[str]:
    return [each.plugin_name for each in registry.implementations(hook)]


def test_object_has_the_version_and_origin_of_its_plugin(registry: PluginRegistry) -> None:
    registry.register(Admits(), name="a", version="1.0", origin="wheel")
    registry.register(Observes(), name="a.part")
    registry.register(Observes(), name="a.other", version="2.0", origin="elsewhere")
    registry.register(Observes(), name="b.part")

    listed = [(info.name, info.version, info.origin) for info in registry.plugins()]

    assert listed == [
        ("a", "1.0", "wheel"),
        ("a.other", "2.0", "elsewhere"),
        ("a.part", "1.0", "wheel"),
        ("b.part", "", ""),
    ]


def test_hooks_of_a_plugin_are_those_of_all_its_objects(registry: PluginRegistry) -> None:
    for name, each in (("a", Admits()), ("a.part", Observes()), ("b", Admits())):
        registry.register(each, name=name)

    hooks = {plugin: list(registry.hooks_of(plugin)) for plugin in ("a", "b", "c")}

    assert hooks == {"a": ["nodeagent_admit_pod", "nodeagent_pod_terminated"], "b": ["nodeagent_admit_pod"], "c": []}


def test_name_in_use_leaves_the_first_object_registered(registry: PluginRegistry) -> None:
    first, second = Admits(), Admits()
    registry.register(first, name="a")
    with pytest.raises(PluginError, match=r"plugin a: .*already registered"):
        registry.register(second, name="a")

    assert called(registry) == ["a"]
    assert (registry.is_registered("a"), registry.is_registered("a", first)) == (True, True)
    assert (registry.is_registered("a", second), registry.is_registered("b"), registry.is_registered("b", None)) == (
        False,
        False,
        False,
    )


def test_plugin_for_another_version_is_not_registered(registry: PluginRegistry) -> None:
    with pytest.raises(PluginError, match=r"plugin a: needs hook API version 98\.0 or newer"):
        registry.register(TooNew(), name="a")

    assert called(registry) == [] and not registry.is_registered("a") and registry.info("a") is None
    registry.register(Admits(), name="a")
    assert called(registry) == ["a"]


def test_removed_plugin_stays_listed_without_its_objects(registry: PluginRegistry) -> None:
    plugin, part = Admits(), Observes()
    for name, each in (("a", plugin), ("a.part", part), ("b", Admits())):
        registry.register(each, name=name)

    objects, infos = registry.remove("a", "disabled")

    assert objects == {"a": plugin, "a.part": part} and [info.name for info in infos] == ["a", "a.part"]
    assert [(info.name, info.state, info.hooks) for info in registry.plugins()] == [
        ("a", "disabled", ()),
        ("b", "loaded", ("nodeagent_admit_pod",)),
    ]
    assert registry.remove("unknown", "disabled") == ({}, [])
    registry.put_back("a", objects, infos)
    assert [info.name for info in registry.plugins()] == ["a", "a.part", "b"]
    assert called(registry) == ["a", "b"] and called(registry, "nodeagent_pod_terminated") == ["a.part"]


def test_hooks_that_plugins_declare_are_declared_in_another_registry(registry: PluginRegistry) -> None:
    other = PluginRegistry()
    registry.register(Shelf(), name="shelf")
    registry.register(Admits(), name="a")

    other.declare_hooks_of(registry)

    assert "shelf_provide_labels" in other.specifications and other.plugins() == []
    assert other.implementations("shelf_provide_labels") == []


def test_only_plugins_of_the_agent_are_bundled(registry: PluginRegistry) -> None:
    registry.register(Admits(), name="a", origin="nodeagent")
    registry.register(Observes(), name="b", origin="wheel")

    assert [name for name in ("a", "a.part", "b", "c") if registry.is_bundled(name)] == ["a", "a.part"]


def test_failed_plugin_is_listed_without_hooks(registry: PluginRegistry, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("a", "a.part", "b"):
        registry.register(Admits(), name=name)

    registry.skip("a", OSError("boom"))

    assert [(info.name, info.state, info.failed) for info in registry.plugins()] == [
        ("a", "failed: boom", True),
        ("a.part", "failed: boom", True),
        ("b", "loaded", False),
    ]
    assert called(registry) == ["b"] and caplog.messages == ["Failed to load plugin, skipping"]


# --- source files ---------------------------------------------------------------------------------------------


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a directory with the package ``owned_package`` and the module ``owned_module``."""
    (tmp_path / "owned_package" / "deep").mkdir(parents=True)
    for file in ("owned_package/__init__.py", "owned_package/deep/part.py", "owned_module.py"):
        (tmp_path / file).touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in ("owned_package", "owned_module"):
        sys.modules.pop(name, None)


def test_source_file_belongs_to_the_plugin_with_its_package_or_module(registry: PluginRegistry, modules: Path) -> None:
    registry.register(importlib.import_module("owned_package"), name="package")
    registry.register(importlib.import_module("owned_module"), name="module.part")

    def owners(*files: str) -> list[str]:
        return [registry.owner_of(str(modules / file)) for file in files]

    assert owners("owned_package/__init__.py", "owned_package/deep/part.py", "owned_package") == ["package"] * 3
    assert owners("owned_module.py") == ["module"]
    assert owners("other.py", "owned_package2/x.py") == ["", ""]
    assert registry.owner_of("<string>") == ""
    registry.remove("package", "disabled")
    assert owners("owned_package/deep/part.py", "owned_module.py") == ["", "module"]
