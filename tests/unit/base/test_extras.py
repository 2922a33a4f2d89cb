"""Tests for optional dependencies: the first extra that is not installed is named."""

from __future__ import annotations

import pytest

from nodeagent.base import extras
from nodeagent.base.extras import missing_extra


def test_first_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    modules = {"here": ("json", "os.path"), "part": ("json", "no_such_module"), "parent": ("no_such_module.inner",)}
    monkeypatch.setattr(extras, "MODULES", modules)

    assert missing_extra("nodeagent status") is None
    assert missing_extra("nodeagent status", "here") is None
    assert missing_extra("nodeagent status", "here", "part", "parent") == (
        "nodeagent status needs the extra \"part\": pip install 'nodeagent[part]'"
    )
    assert missing_extra("nodeagent status", "parent", "part") == (
        "nodeagent status needs the extra \"parent\": pip install 'nodeagent[parent]'"
    )
