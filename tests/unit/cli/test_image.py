"""Tests for ``nodeagent image pin`` and ``unpin``, which need neither configuration nor runtime."""

from __future__ import annotations

import pytest

from nodeagent.cli.main import main
from nodeagent.contracts.image_pins import read_pins


def test_image_is_pinned_and_unpinned(tmp_path, capsys):
    assert main(["image", "pin", "busybox", "--root-dir", str(tmp_path)]) == 0
    assert read_pins(tmp_path) == {"docker.io/library/busybox:latest"}

    assert main(["image", "unpin", "busybox", "--root-dir", str(tmp_path)]) == 0
    assert read_pins(tmp_path) == set()
    assert capsys.readouterr().out.splitlines() == [
        "pinned docker.io/library/busybox:latest",
        "unpinned docker.io/library/busybox:latest",
    ]


def test_unpinning_an_image_that_is_not_pinned_fails(tmp_path, capsys):
    assert main(["image", "unpin", "busybox", "--root-dir", str(tmp_path)]) == 1
    assert "is not pinned" in capsys.readouterr().err


def test_image_id_can_be_pinned(tmp_path):
    assert main(["image", "pin", f"sha256:{'a' * 64}", "--root-dir", str(tmp_path)]) == 0


@pytest.mark.parametrize("name", ["UP PER", "x/UPPER", ""])
def test_invalid_image_name_is_not_pinned(tmp_path, capsys, name):
    assert main(["image", "pin", name, "--root-dir", str(tmp_path)]) == 2
    assert repr(name) in capsys.readouterr().err
    assert not read_pins(tmp_path)
