"""Tests for the selection of the demo's container runtime."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodeagent.demo.processes import DemoError
from nodeagent.demo.runtimes import RuntimeSelection, select_runtime

FIRST, SECOND = Path("/run/first.sock"), Path("/run/second.sock")
KNOWN = (("first", FIRST), ("second", SECOND))
NO_PODS = Path("/nowhere/pods")


def running(*paths: Path):
    return lambda path: "" if path in paths else f"no socket {path}"


def test_first_running_runtime_is_selected() -> None:
    selection = select_runtime("", KNOWN, NO_PODS, running(SECOND))

    assert selection == RuntimeSelection(f"unix://{SECOND}", "second is running")


def test_embedded_runtime_is_selected_if_no_other_is_running() -> None:
    selection = select_runtime("", KNOWN, NO_PODS, running())

    assert not selection.endpoint
    assert f"first: no socket {FIRST}; second: no socket {SECOND}" in selection.reason


def test_runtime_of_another_agent_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "uid").mkdir()

    assert select_runtime("", KNOWN, tmp_path, running(FIRST)).endpoint == ""
    with pytest.raises(DemoError, match="another node agent has pods"):
        select_runtime(f"unix://{FIRST}", KNOWN, tmp_path, running(FIRST))
    assert select_runtime("unix:///own.sock", KNOWN, tmp_path, running(Path("/own.sock"))).endpoint


def test_requested_runtime_is_selected() -> None:
    assert select_runtime("embedded", KNOWN, NO_PODS, running(FIRST)) == RuntimeSelection("", "as requested")
    assert select_runtime(f"unix://{SECOND}", KNOWN, NO_PODS, running(FIRST, SECOND)).endpoint == f"unix://{SECOND}"


def test_unavailable_requested_runtime_raises_with_remedy() -> None:
    with pytest.raises(DemoError, match=r"no socket /run/first.sock; install and start one"):
        select_runtime(f"unix://{FIRST}", KNOWN, NO_PODS, running())
