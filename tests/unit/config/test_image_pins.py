"""Pins are read as they were written; a file that is something else is refused."""

from __future__ import annotations

import pytest

from nodeagent.config.image_pins import read_pins, write_pins
from nodeagent.errors import NodeAgentError


def test_reads_what_was_written(tmp_path):
    root = tmp_path / "root"

    write_pins(root, ["b", "a", "b"])
    first = read_pins(root)
    write_pins(root, [])

    assert first == {"a", "b"}
    assert read_pins(root) == frozenset()
    assert [path.name for path in root.iterdir()] == ["image_pins.json"]


def test_without_a_file_nothing_is_pinned(tmp_path):
    assert read_pins(tmp_path) == frozenset()


@pytest.mark.parametrize("content", ["", "[]", '{"images": "a"}', '{"images": [1]}', "\xff"])
def test_another_file_is_refused(tmp_path, content):
    (tmp_path / "image_pins.json").write_text(content, encoding="latin-1")

    with pytest.raises(NodeAgentError, match=r"read pinned images .*remove it and pin anew"):
        read_pins(tmp_path)


def test_a_disk_that_refuses_is_named(tmp_path):
    (tmp_path / "file").touch()

    with pytest.raises(NodeAgentError, match="write pinned images"):
        write_pins(tmp_path / "file", ["a"])
