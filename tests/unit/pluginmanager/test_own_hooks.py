"""Tests for hooks that plugins declare for other plugins."""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path

import pytest

from nodeagent import deadline, hookimpl, hookspec
from nodeagent.errors import PluginError
from nodeagent.pluginmanager import PluginManager


class ShelfHooks:
    """Hooks of the plugin ``shelf``."""

    @hookspec
    @deadline(0.5)
    async def shelf_tidied(self, books: int) -> str | None:
        """Receive the number of books after the shelf was tidied."""

    @hookspec
    def shelf_provide_labels(self) -> list[str] | None:
        """Return labels."""


class Shelf:
    @hookimpl
    def nodeagent_addhooks(self):
        return ShelfHooks()


class Reader:
    def __init__(self) -> None:
        self.counts: list[int] = []

    @hookimpl
    async def shelf_tidied(self, books):
        self.counts.append(books)
        return "read"

    @hookimpl
    def shelf_provide_labels(self):
        return ["a"]


@pytest.fixture
def manager() -> PluginManager:
    manager = PluginManager()
    manager.register(Shelf(), name="shelf")
    return manager


async def test_hook_addhooks(manager):
    reader = Reader()
    manager.register(reader, name="reader")

    await manager.notify("shelf_tidied", books=3)
    (result,) = manager.provide_all("shelf_provide_labels")
    first = await manager.call_first("shelf_tidied", books=4)

    assert reader.counts == [3, 4]
    assert (result.plugin, result.value) == ("reader", ["a"])
    assert first is not None and first.value == "read"
    assert manager.is_implemented("shelf_tidied")
    assert manager.deadline_of("shelf_tidied") == 0.5
    info = manager.info("reader")
    assert info is not None and info.stats["shelf_tidied"].calls == 2
    assert manager.specifications.declared_by("shelf") == ["shelf_provide_labels", "shelf_tidied"]


def test_use_of_a_deprecated_argument_is_recorded_and_logged(caplog):
    class OldHooks:
        @hookspec(warn_on_impl_args={"books": DeprecationWarning("books is deprecated: use volumes")})
        async def shelf_tidied(self, books: int, volumes: int) -> None:
            """Receive the number of books."""

    class Old:
        @hookimpl
        def nodeagent_addhooks(self):
            return OldHooks()

    class New:
        @hookimpl
        async def shelf_tidied(self, volumes):
            pass

    manager = PluginManager()
    manager.register(Old(), name="shelf")
    manager.register(New(), name="new")

    class Uses:
        @hookimpl
        async def shelf_tidied(self, books):
            pass

    manager.register(Uses(), name="uses")

    (found,) = manager.deprecations
    assert (Path(found.file).name, found.text) == ("test_own_hooks.py", "books is deprecated: use volumes")
    (record,) = caplog.records
    assert (record.plugin, record.message) == ("uses", "Plugin uses deprecated hook or argument")


async def test_result_of_a_declared_hook_is_validated(manager):
    class Wrong:
        @hookimpl
        async def shelf_tidied(self):
            return 3

    manager.register(Wrong(), name="wrong")

    with pytest.raises(PluginError, match="plugin wrong: shelf_tidied returned 3, expected str"):
        await manager.call_first("shelf_tidied", books=1)


@pytest.mark.parametrize(
    ("implementation", "message"),
    [
        ("async def shelf_tidied(self, pages): ...", "pages"),
        ("def shelf_tidied(self, books): ...", "shelf_tidied must be an async def"),
        ("async def shelf_burned(self): ...", "implements unknown hook shelf_burned"),
    ],
)
def test_implementation_that_does_not_match_the_declaration_is_rejected(manager, implementation, message):
    names: dict[str, type] = {}
    exec(f"class Plugin:\n    @hookimpl\n    {implementation}", {"hookimpl": hookimpl}, names)

    with pytest.raises(PluginError, match=message):
        manager.register(names["Plugin"](), name="other")


async def test_optional_hook_of_a_missing_plugin_is_ignored():
    class Guest:
        @hookimpl(optionalhook=True)
        async def shelf_tidied(self, books): ...

    manager = PluginManager()

    manager.register(Guest(), name="guest")

    assert [info.name for info in manager.plugins()] == ["guest"]


@pytest.mark.parametrize(
    ("hook", "message"),
    [
        ("other_done", "names of its hooks must start with shelf_: other_done"),
        ("nodeagent_done", "names of its hooks must start with shelf_: nodeagent_done"),
        ("", "no function of .* is marked with @hookspec"),
    ],
)
def test_invalid_declaration_is_rejected(hook, message):
    async def function() -> None: ...

    specifications = type("Hooks", (), {hook: staticmethod(hookspec(function))} if hook else {})
    declaring = type("Declaring", (), {"nodeagent_addhooks": hookimpl(lambda self: specifications)})

    with pytest.raises(PluginError, match=message):
        PluginManager().register(declaring(), name="shelf")


def test_declaration_precedes_implementations_of_plugins_that_load_earlier(tmp_path: Path, monkeypatch):
    (tmp_path / "late_hooks.py").write_text(
        "from nodeagent import hookimpl, hookspec\n"
        "class Hooks:\n    @hookspec\n    async def zoo_fed(self): ...\n"
        "@hookimpl\ndef nodeagent_addhooks(): return Hooks()\n"
    )
    (tmp_path / "early_user.py").write_text("from nodeagent import hookimpl\n@hookimpl\nasync def zoo_fed(): ...\n")
    (tmp_path / "broken_hooks.py").write_text(
        "from nodeagent import hookimpl\n@hookimpl\ndef nodeagent_addhooks(): raise OSError('disk')\n"
    )
    entries = [
        importlib.metadata.EntryPoint(name, module, "nodeagent")
        for name, module in (("ant", "early_user"), ("bug", "broken_hooks"), ("zoo", "late_hooks"))
    ]
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: entries)
    manager = PluginManager()
    try:
        manager.load_entry_points()
    finally:
        for module in ("early_user", "broken_hooks", "late_hooks"):
            sys.modules.pop(module, None)

    states = {info.name: info.state for info in manager.plugins()}
    assert states == {
        "ant": "loaded",
        "bug": "failed: plugin bug: nodeagent_addhooks failed: OSError('disk')",
        "zoo": "loaded",
    }
    assert manager.is_implemented("zoo_fed")


def test_unmarked_function_declares_no_hooks():
    class Unmarked:
        def nodeagent_addhooks(self):
            raise AssertionError

    manager = PluginManager()
    manager.register(Unmarked(), name="shelf")

    assert [(info.name, info.hooks) for info in manager.plugins()] == [("shelf", ())]
