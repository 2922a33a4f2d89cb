"""The picture of the plugins is read as it is, whoever left it."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodeagent.plugin_report import FILE_NAME, read_report

DECISION = '{"plugin": "a", "hook": "h", "subject": "s", "verdict": "v", "at": 1.0}'


def test_what_an_agent_left_is_read(tmp_path: Path) -> None:
    content = f'{{"pid": 1, "plugins": [{{"name": "a", "hooks": ["h"]}}], "decisions": [{DECISION}], "new": 1}}'
    (tmp_path / FILE_NAME).write_text(content)

    found = read_report(tmp_path)

    assert [(one["name"], [*one["hooks"]], one["state"]) for one in found["plugins"]] == [("a", ["h"], "loaded")]
    assert found["decisions"][0]["verdict"] == "v"


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "{}", "\xff", '{"plugins": "old", "decisions": []}', '{"plugins": [1], "decisions": []}']
)
def test_what_is_no_picture_counts_as_none(tmp_path: Path, content: str) -> None:
    (tmp_path / FILE_NAME).write_bytes(content.encode("latin-1"))

    assert read_report(tmp_path) == {}
