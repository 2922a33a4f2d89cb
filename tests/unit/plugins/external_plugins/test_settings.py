"""Tests for the settings of out-of-process plugins."""

from __future__ import annotations

from typing import Any

import pytest

from nodeagent.plugin_schemas import validate
from nodeagent_plugins.external_plugins.process import _allocate
from nodeagent_plugins.external_plugins.settings import SCHEMA, parse, problems_of

ENTRY = {"command": ["/opt/shelf"], "capabilities": ["admission"]}


def problems(entry: dict[str, Any], name: str = "shelf", *, is_root: bool = True) -> list[str]:
    """Return all problems of the settings of one plugin."""
    settings = {"plugins": {name: entry}}
    schema = [f"{each.path} {each.message}" for each in validate({"p": dict(SCHEMA)}, {"p": settings})]
    return schema or [f"{each.path} {each.rule}" for each in problems_of(settings, is_root=is_root)]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"capabilities": ["fly"]}, ".plugins.shelf.capabilities[0] 'fly' is not one of"),
        ({"command": None, "socket": "/run/a.sock"}, ""),
        ({"command": None}, "plugins.shelf must have either command or socket"),
        ({"socket": "/run/a.sock"}, "plugins.shelf must have either command or socket"),
        ({"command": ["shelf"]}, "plugins.shelf.command[0] must be an absolute path"),
        ({"command": None, "socket": "a.sock"}, "plugins.shelf.socket must be an absolute path"),
        ({"command": None, "socket": "/" + "a" * 107}, "plugins.shelf.socket must not be longer than 107 bytes"),
        ({"command": None, "socket": "/a", "env": {}}, "plugins.shelf.env requires command"),
        ({"volumeDrivers": ["a"]}, "plugins.shelf.volumeDrivers must be set with the capability volumes"),
        ({"capabilities": ["volumes"]}, "plugins.shelf.volumeDrivers must be set with the capability volumes"),
        ({"env": {"A B": ""}}, "plugins.shelf.env must be the name of a variable"),
        ({"group": 5}, "plugins.shelf.group requires user"),
        ({"limits": {"memory": "lots"}}, "plugins.shelf.limits.memory must be a quantity of at least 1Mi"),
        ({"limits": {"cpu": "1m"}}, "plugins.shelf.limits.cpu must be a quantity of at least 10m"),
        ({"command": None, "socket": "/" + "a" * 106}, ""),
        ({"env": {"NODEAGENT_PLUGIN_SOCKET": "x"}}, "plugins.shelf.env must be the name of a variable other than"),
        ({"workingDirectory": "a"}, "plugins.shelf.workingDirectory must be an absolute path"),
        ({"workingDirectory": "/a"}, ""),
        ({"limits": {"memory": "1Mi", "cpu": "10m"}}, ""),
        ({"restart": {"initialSeconds": 3, "maxSeconds": 3}}, ""),
        ({"restart": {"initialSeconds": 9, "maxSeconds": 3}}, "plugins.shelf.restart.maxSeconds must not be less than"),
        ({"limits": {"memory": "64Mi", "cpu": "500m", "pids": 9}, "user": "shelf"}, ""),
    ],
)
def test_rules_are_reported_with_their_path(change: dict[str, Any], problem: str) -> None:
    entry = {key: value for key, value in {**ENTRY, **change}.items() if value is not None}

    found = problems(entry)

    assert [each[: len(problem)] for each in found] == ([problem] if problem else [])


def test_all_problems_are_reported_together() -> None:
    assert len(problems({**ENTRY, "command": ["a"], "env": {"": ""}, "limits": {"cpu": "x"}}, "Bad-Name")) == 4


def test_user_requires_root() -> None:
    assert problems({**ENTRY, "user": 5}, is_root=False) == ["plugins.shelf.user requires that the agent runs as root"]


def test_limits_are_parsed() -> None:
    (plugin,) = parse({"plugins": {"shelf": {**ENTRY, "limits": {"memory": "64Mi", "cpu": "500m"}}}})

    assert (plugin.limits.memory_bytes, plugin.limits.cpu_millis, plugin.limits.pids) == (64 << 20, 500, 128)


def test_plugins_without_user_get_different_ids() -> None:
    names = [f"plugin_{number}" for number in range(100)]

    ids = _allocate(names)

    assert len(set(ids.values())) == 100
    assert _allocate(["plugin_7"])["plugin_7"] in range(60600, 61000)


@pytest.mark.parametrize(("directory", "count"), [("run", 1), ("/run", 0)])
def test_directory_of_sockets_must_be_absolute(directory: str, count: int) -> None:
    assert len(problems_of({"directory": directory, "plugins": {}}, is_root=True)) == count
