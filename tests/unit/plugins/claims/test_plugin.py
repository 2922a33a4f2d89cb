"""Tests for the hooks of the plugin ``claims``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nodeagent.config.features import build_gates
from nodeagent.pluginmanager import PluginManager
from nodeagent.testing import FakeApi, FakeClaimDriver, load_plugin, make_context
from nodeagent_plugins import claims

GATE = "DynamicResourceAllocation"
LATER = ("plugin_handlers", "resource_reporters", "background_loops")


def load(context: Any) -> PluginManager:
    return load_plugin(claims, context=context)


def provided(manager: PluginManager, kind: str, **arguments: Any) -> list[Any]:
    """Return the results of a provider hook."""
    results = manager.provide_all(f"nodeagent_provide_{kind}", **arguments)
    return [item for result in results for item in (result.value if kind != "claim_manager" else [result.value])]


async def test_disabled_feature_gate_provides_nothing(tmp_path: Path) -> None:
    context = make_context(tmp_path, gates=build_gates({GATE: False}))
    manager = load(context)

    assert provided(manager, "claim_manager", context=context, drivers=[]) == []
    assert [provided(manager, kind, context=context, plugins=manager) for kind in LATER] == [[], [], []]


@pytest.mark.parametrize("standalone", [True, False])
async def test_slices_are_deleted_only_with_an_api_server(tmp_path: Path, standalone: bool) -> None:
    context = make_context(tmp_path, api=None if standalone else FakeApi(), gates=build_gates({GATE: True}))
    manager = load(context)
    assert len(provided(manager, "claim_manager", context=context, drivers=[FakeClaimDriver()])) == 1

    handlers, reporters, loops = (provided(manager, kind, context=context, plugins=manager) for kind in LATER)

    assert [handler.plugin_type for handler in handlers] == ["DRAPlugin"] and len(reporters) == 1
    cleaner = [] if standalone else ["resource slices"]
    assert [loop.name for loop in loops] == ["resource claims", "DRA drivers", *cleaner]


def test_missing_boot_id_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(claims, "_BOOT_ID", tmp_path / "boot_id")
    assert claims.read_boot_id() == ""
    assert caplog.messages == ["Failed to read boot ID"]

    (tmp_path / "boot_id").write_text("4f0e\n")
    assert claims.read_boot_id() == "4f0e"
