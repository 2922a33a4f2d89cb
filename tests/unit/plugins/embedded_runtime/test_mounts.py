"""Tests for mount points of kernel file systems in images."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodeagent_plugins.embedded_runtime.errors import FailedPrecondition
from nodeagent_plugins.embedded_runtime.mounts import check_root


@pytest.mark.parametrize("name", ["dev", "proc", "sys"])
@pytest.mark.parametrize("target", ["/tmp", "missing"])
def test_link_at_a_mount_point_is_rejected(tmp_path: Path, name: str, target: str) -> None:
    (tmp_path / "bin").symlink_to("usr/bin")
    (tmp_path / "proc").mkdir()
    check_root(tmp_path)
    (tmp_path / "proc").rmdir()
    (tmp_path / name).symlink_to(target)

    with pytest.raises(FailedPrecondition, match=f"/{name} of the image is a symbolic link"):
        check_root(tmp_path)
