"""Tests for reading the plugin report."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodeagent.plugin_report import FILE_NAME, read_report

DECISION = '{"plugin": "a", "hook": "h", "subject": "s", "verdict": "v", "at": 1.0}'


def test_report_of_an_agent_is_read(tmp_path: Path) -> None:
    content = f'{{"pid": 1, "plugins": [{{"name": "a", "hooks": ["h"]}}], "decisions": [{DECISION}], "new": 1}}'
    (tmp_path / FILE_NAME).write_text(content)

    report = read_report(tmp_path)

    assert [(one["name"], [*one["hooks"]], one["state"]) for one in report["plugins"]] == [("a", ["h"], "loaded")]
    assert report["decisions"][0]["verdict"] == "v"


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "{}", "\xff", '{"plugins": "old", "decisions": []}', '{"plugins": [1], "decisions": []}']
)
def test_invalid_report_counts_as_none(tmp_path: Path, content: str) -> None:
    (tmp_path / FILE_NAME).write_bytes(content.encode("latin-1"))

    assert read_report(tmp_path) == {}
