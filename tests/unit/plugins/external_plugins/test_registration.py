"""Tests for the registration of configured plugins: names, hooks, sockets and users."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from nodeagent.pluginmanager import PluginManager
from nodeagent.testing import FakeCgroups, load_plugin, make_context
from nodeagent_plugins import external_plugins
from nodeagent_plugins.external_plugins import registration
from nodeagent_plugins.external_plugins.process import Executable
from nodeagent_plugins.external_plugins.registration import socket_directory, socket_of
from nodeagent_plugins.external_plugins.session import Session
from nodeagent_plugins.external_plugins.settings import parse

EXECUTABLE = {"command": ["/bin/shelf"]}
SOCKET = {"socket": "/run/shelf.sock"}


class Cgroups(FakeCgroups):
    """Cgroups that can contain processes of the agent."""

    async def ensure_processes(self, name: str, limits: Any) -> list[Path]:
        return []

    async def remove_processes(self, name: str) -> None:
        return None


def loaded(tmp_path: Path, **fields: Any) -> tuple[PluginManager, Any]:
    """Return the plugin manager and the context after the plugin ``shelf`` was configured."""
    settings = {"plugins": {"shelf": fields}} if fields else {}
    context = make_context(tmp_path, plugin_settings={"external_plugins": settings})
    return load_plugin(external_plugins, name="external_plugins", context=context), context


def providers(manager: PluginManager, hook: str, **arguments: Any) -> list[str]:
    return [result.plugin for result in manager.provide_all(hook, **arguments)]


@pytest.mark.parametrize(
    ("capability", "hooks"),
    [
        ("admission", {"nodeagent_admit_pod"}),
        ("eviction", {"nodeagent_permit_eviction", "nodeagent_rank_pods_for_eviction"}),
        ("node_report", {"nodeagent_report_node"}),
        ("credentials", {"nodeagent_provide_credential_providers"}),
    ],
)
def test_plugin_has_the_hooks_of_its_capabilities(tmp_path: Path, capability: str, hooks: set[str]) -> None:
    manager, _ = loaded(tmp_path, capabilities=[capability], **EXECUTABLE)

    (info,) = [each for each in manager.plugins() if each.name == "shelf"]

    others = {"nodeagent_admit_pod", "nodeagent_report_node", "nodeagent_provide_credential_providers"} - hooks
    assert hooks <= set(info.hooks)
    assert not others & set(info.hooks)


def test_no_plugin_is_registered_by_default(tmp_path: Path) -> None:
    manager, context = loaded(tmp_path)

    assert [each.name for each in manager.plugins()] == ["external_plugins"]
    assert external_plugins.nodeagent_provide_node_checks(context) == ()


@pytest.mark.parametrize(("capability", "checks"), [("node_checks", 1), ("admission", 0)])
def test_node_checks_of_a_plugin_are_provided(tmp_path: Path, capability: str, checks: int) -> None:
    _, context = loaded(tmp_path, capabilities=[capability], **SOCKET)

    assert len(external_plugins.nodeagent_provide_node_checks(context)) == checks


@pytest.mark.parametrize(
    ("fields", "cgroups", "warned"),
    [
        (EXECUTABLE, Cgroups(), 0),
        (EXECUTABLE, object(), 1),
        (SOCKET, object(), 0),
    ],
)
def test_executable_without_limits_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, fields: dict[str, Any], cgroups: Any, warned: int
) -> None:
    caplog.set_level(logging.WARNING)
    manager, context = loaded(tmp_path, capabilities=["admission"], **fields)
    context.cgroups = cgroups

    loops = manager.provide_all("nodeagent_provide_background_loops", context=context, plugins=manager)

    assert [result.plugin for result in loops] == ["shelf"]
    assert caplog.messages.count("Running out-of-process plugin without limits") == warned


class Supervised(NamedTuple):
    """Arguments for the supervision of an executable plugin."""

    session: Session
    make: Callable[[], Awaitable[Executable]]


def supervised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plugins: Mapping[str, Any], cgroups: Any = None
) -> tuple[dict[str, Supervised], Any]:
    """Return the supervised executables by plugin name, and the context."""
    found: dict[str, Supervised] = {}

    def supervise(session: Session, make: Callable[[], Awaitable[Executable]], _clock: Any) -> object:
        found[session.plugin.name] = Supervised(session, make)
        return object()

    monkeypatch.setattr(registration, "supervise_executable", supervise)
    context = make_context(tmp_path, plugin_settings={"external_plugins": {"plugins": plugins}})
    context.cgroups = cgroups
    manager = load_plugin(external_plugins, name="external_plugins", context=context)
    manager.provide_all("nodeagent_provide_background_loops", context=context, plugins=manager)
    return found, context


@pytest.mark.parametrize("user", [0, 1000])
async def test_executables_without_a_user_get_different_ids_from_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: int
) -> None:
    monkeypatch.setattr(registration.os, "geteuid", lambda: user)
    allocated: list[tuple[str, list[str]]] = []
    monkeypatch.setattr(registration, "owner_of", lambda plugin, names: allocated.append((plugin.name, list(names))))
    common = {"capabilities": ["admission"]}
    plugins = {
        "a": {**common, **EXECUTABLE},
        "b": {**common, **EXECUTABLE},
        "c": {**common, **EXECUTABLE, **({"user": "daemon"} if user == 0 else {})},
        "d": {**common, **SOCKET},
    }

    found, _ = supervised(tmp_path, monkeypatch, plugins)
    for each in found.values():
        await each.make()

    names = ["a", "b"]
    assert allocated == ([("a", names), ("b", names), ("c", names)] if user == 0 else [])


@pytest.mark.parametrize("limited", [True, False])
async def test_executable_has_a_cgroup_where_supported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limited: bool
) -> None:
    cgroups: list[Any] = []
    monkeypatch.setattr(registration, "Executable", lambda *arguments: cgroups.append(arguments[3]))
    manager = Cgroups() if limited else object()
    found, _ = supervised(tmp_path, monkeypatch, {"shelf": {"capabilities": ["admission"], **EXECUTABLE}}, manager)

    await found["shelf"].make()

    (cgroup,) = cgroups
    assert (cgroup.manager is manager and cgroup.name.startswith("shelf_")) if limited else cgroup is None


@pytest.mark.parametrize(("capability", "reports"), [("node_report", 1), ("admission", 0)])
def test_node_is_reported_once_the_plugin_is_connected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capability: str, reports: int
) -> None:
    found, context = supervised(tmp_path, monkeypatch, {"shelf": {"capabilities": [capability], **EXECUTABLE}})

    assert found["shelf"].session.on_connected.count(context.trigger_node_status) == reports


@pytest.mark.parametrize(
    ("user", "configured", "directory"),
    [
        (0, "", "/run/nodeagent/*"),
        (1000, "", "{root}/external-plugins"),
        (0, "/own", "/own"),
        (1000, "/own", "/own"),
    ],
)
def test_directory_of_sockets_depends_on_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: int, configured: str, directory: str
) -> None:
    monkeypatch.setattr(registration.os, "geteuid", lambda: user)

    found = socket_directory({"directory": configured} if configured else {}, tmp_path)

    assert found.match(directory.format(root=tmp_path))


@pytest.mark.parametrize(("fields", "socket"), [(EXECUTABLE, "/dir/shelf/plugin.sock"), (SOCKET, "/run/shelf.sock")])
def test_socket_of_an_executable_is_in_its_directory(fields: dict[str, Any], socket: str) -> None:
    (plugin,) = parse({"plugins": {"shelf": {"capabilities": ["admission"], **fields}}})

    assert socket_of(plugin, Path("/dir")) == socket


@pytest.mark.parametrize(("user", "problems"), [(0, 0), (1000, 1)])
def test_user_of_a_plugin_requires_root(monkeypatch: pytest.MonkeyPatch, user: int, problems: int) -> None:
    monkeypatch.setattr(external_plugins.os, "geteuid", lambda: user)
    settings = {"plugins": {"shelf": {"capabilities": ["admission"], "user": "daemon", **EXECUTABLE}}}

    check = external_plugins.nodeagent_check_settings({"external_plugins": settings})

    assert check is not None and len(check.problems) == problems
    assert [each.name for each in check.plugins] == ["shelf"]
    assert external_plugins.nodeagent_check_settings({"other": {}}) is None
