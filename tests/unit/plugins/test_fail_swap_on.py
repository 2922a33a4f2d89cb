"""Tests for the swap check at startup."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodeagent.base.swap import swap_areas
from nodeagent.errors import ConfigError
from nodeagent.testing.context import make_config, make_context
from nodeagent.testing.plugins import load_plugin
from nodeagent_plugins import fail_swap_on

HEADER = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
SWAPPING = HEADER + "/dev/sda2   partition\t8388604\t0\t-2\n/swap\\040file   file\t1024\t0\t-3\n"


@pytest.fixture
def swaps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "swaps"
    monkeypatch.setattr(fail_swap_on, "SWAPS", file)
    return file


@pytest.mark.row("config.failSwapOn")
def test_start_fails_with_swap(tmp_path: Path, swaps: Path) -> None:
    swaps.write_text(SWAPPING)

    with pytest.raises(ConfigError, match="failSwapOn: /dev/sda2: running with swap on is not supported"):
        load_plugin(fail_swap_on, context=make_context(tmp_path, config=make_config()))

    assert swap_areas(swaps) == ["/dev/sda2", "/swap\\040file"]


@pytest.mark.parametrize(
    "allowed", [{"fail_swap_on": False}, {"feature_gates": {"NodeAgentInUserNamespace": True}}], ids=["field", "gate"]
)
@pytest.mark.row("config.failSwapOn")
def test_start_succeeds_with_allowed_swap(tmp_path: Path, swaps: Path, allowed: dict[str, object]) -> None:
    swaps.write_text(SWAPPING)

    load_plugin(fail_swap_on, context=make_context(tmp_path, config=make_config(**allowed)))


@pytest.mark.parametrize("content", [HEADER, "", None], ids=["header only", "empty", "no such file"])
def test_start_succeeds_without_swap(tmp_path: Path, swaps: Path, content: str | None) -> None:
    if content is not None:
        swaps.write_text(content)

    load_plugin(fail_swap_on, context=make_context(tmp_path, config=make_config()))
