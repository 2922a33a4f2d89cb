"""Tests for the safe opening of files under a directory."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from nodeagent_plugins.routes_logs import beneath
from nodeagent_plugins.routes_logs.beneath import open_beneath


@pytest.fixture(params=["by the kernel", "name by name"])
def root(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Directory like ``/var/log`` with a file outside of it."""
    if request.param == "name by name":
        monkeypatch.setattr(beneath, "_NO_OPENAT2", frozenset(errno.errorcode))
    log = tmp_path / "log"
    (log / "pods/web").mkdir(parents=True)
    (log / "containers").mkdir()
    (log / "pods/web/0.log").write_text("hello")
    (tmp_path / "secret").write_text("hunter2")
    (tmp_path / "log-other").write_text("hunter2")
    return log


def read(root: Path, name: str, *, links: bool = True) -> str:
    descriptor = open_beneath(root, name, links=links)
    try:
        return os.read(descriptor, 100).decode()
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("relative", [True, False])
def test_link_to_a_pod_log_is_followed(root: Path, relative: bool) -> None:
    target = Path("../pods/web/0.log") if relative else root / "pods/web/0.log"
    (root / "containers/web.log").symlink_to(target)

    assert read(root, "containers/web.log") == "hello"
    with pytest.raises(OSError, match="symbolic links"):
        read(root, "containers/web.log", links=False)


@pytest.mark.parametrize("target", ["{root}/../secret", "../secret", "/etc/hostname", "{root}-other", "loop"])
def test_link_that_leaves_the_directory_is_rejected(root: Path, target: str) -> None:
    (root / "loop").symlink_to(target.format(root=root))

    with pytest.raises(OSError, match="loop"):
        read(root, "loop")


def test_path_that_leaves_the_directory_is_rejected(root: Path) -> None:
    for name in ("../secret", "../log/pods/web/0.log"):
        with pytest.raises(OSError, match="Invalid cross-device link"):
            read(root, name)
