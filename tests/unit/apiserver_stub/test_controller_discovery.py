"""Tests for the discovery of controllers of plugins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.metadata import EntryPoint
from types import SimpleNamespace
from typing import Any

import pytest

from apiserver_stub import hookimpl
from apiserver_stub.controller_discovery import arrange, discover_controllers
from apiserver_stub.controllers.manager import bundled_controllers
from apiserver_stub.controllers.plugin import Controller
from apiserver_stub.options import OptionsError, parse
from apiserver_stub.plugins import GROUP, load_plugins


class Widgets(Controller):
    name = "widget-controller"
    resources = ("widgets.example.com",)


@pytest.fixture
def provided(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Return the controllers that an installed plugin provides; a test adds them before the first discovery."""
    found: list[Any] = []

    def nodeagent_apiserver_controllers() -> Sequence[Any]:
        return found

    plugin = SimpleNamespace(nodeagent_apiserver_controllers=hookimpl(nodeagent_apiserver_controllers))
    monkeypatch.setattr(EntryPoint, "load", lambda self: plugin)
    monkeypatch.setattr("apiserver_stub.plugins.entry_points", lambda group: [EntryPoint("example", "x", GROUP)])
    for cached in (load_plugins, discover_controllers):
        cached.cache_clear()
    yield found
    monkeypatch.undo()
    for cached in (load_plugins, discover_controllers):
        cached.cache_clear()


def test_controller_of_a_plugin_is_selected_by_its_name(provided: list[Any]) -> None:
    provided.append(Widgets)

    assert discover_controllers().controllers == (*bundled_controllers(), Widgets)
    assert parse([]).runs_controller("widget-controller")
    assert not parse(["--controllers=*,-widget-controller"]).runs_controller("widget-controller")


def test_invalid_controller_of_a_plugin_is_an_error_of_the_command_line(provided: list[Any]) -> None:
    provided.append("widgets")

    with pytest.raises(OptionsError, match=r"plugin example: not a subclass of .*Controller: 'widgets'"):
        parse([])


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "class attribute name must consist of lower case letters, digits and hyphens"),
        ("Widgets", "class attribute name must consist of lower case letters, digits and hyphens"),
        ("deployment-controller", 'controller "deployment-controller" has the name of another controller'),
        ("garbagecollector", 'controller "garbagecollector" has the name of another controller'),
    ],
)
def test_name_of_a_controller_is_checked(name: str, problem: str) -> None:
    found = arrange([(type("Odd", (Controller,), {"name": name}), "p")])

    assert found.controllers == bundled_controllers()
    assert len(found.errors) == 1 and found.errors[0].endswith(problem)
