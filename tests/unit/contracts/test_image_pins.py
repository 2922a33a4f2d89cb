"""Tests for image pins."""

from __future__ import annotations

import pytest

from nodeagent.contracts.image_pins import read_pins, write_pins
from nodeagent.errors import NodeAgentError


def test_written_pins_are_read_back(tmp_path):
    root = tmp_path / "root"

    write_pins(root, ["b", "a", "b"])
    first = read_pins(root)
    write_pins(root, [])

    assert first == {"a", "b"}
    assert read_pins(root) == frozenset()
    assert [path.name for path in root.iterdir()] == ["image_pins.json"]


def test_missing_file_returns_no_pins(tmp_path):
    assert read_pins(tmp_path) == frozenset()


@pytest.mark.parametrize("content", ["", "[]", '{"images": "a"}', '{"images": [1]}', "\xff"])
def test_invalid_file_is_rejected(tmp_path, content):
    (tmp_path / "image_pins.json").write_text(content, encoding="latin-1")

    with pytest.raises(NodeAgentError, match=r"read pinned images .*remove it and pin again"):
        read_pins(tmp_path)


def test_failed_write_names_the_file(tmp_path):
    (tmp_path / "file").touch()

    with pytest.raises(NodeAgentError, match="write pinned images"):
        write_pins(tmp_path / "file", ["a"])
