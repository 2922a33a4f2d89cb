"""Tests for the detection of the host's capabilities."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodeagent_plugins.embedded_runtime import host
from nodeagent_plugins.embedded_runtime.host import Host, find_executable

FULL_MAP = "         0          0 4294967295\n"
RESOURCE = 1 << 24
"""The capability SYS_RESOURCE."""


class Files:
    """Files of the host in a directory."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.writable: list[str] = []
        self.write("proc/self/status", f"Name:\tpython\nCapInh:\t0\nCapEff:\t{RESOURCE | 1:016x}\nSeccomp:\t0\n")
        self.write("proc/self/uid_map", FULL_MAP)
        self.write("proc/self/oom_score_adj", "100\n")
        monkeypatch.setattr(host, "CGROUPS", root / "sys/fs/cgroup")
        monkeypatch.setattr(host, "Path", self._path)
        monkeypatch.setattr(host, "is_chroot", lambda: False)
        monkeypatch.setattr(host.os, "access", lambda path, mode: str(path.relative_to(root)) in self.writable)

    def _path(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    def write(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    return Files(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("capabilities", "users", "remapped", "lowest"),
    [
        (RESOURCE | 1, FULL_MAP, False, -1000),
        (1, FULL_MAP, False, 100),
        (RESOURCE, "0 100000 65536\n", True, 100),
        (0, "0 100000 65536\n", True, 100),
    ],
)
def test_oom_score_is_lowered_only_with_the_capability_of_the_host(
    files: Files, capabilities: int, users: str, remapped: bool, lowest: int
) -> None:
    files.write("proc/self/status", f"CapEff:\t{capabilities:016x}\n")
    files.write("proc/self/uid_map", users)
    found = Host.detect()
    assert (found.remapped, found.oom_score_adj) == (remapped, lowest)
    assert ("SYS_RESOURCE" in found.capabilities, "CHOWN" in found.capabilities) == (
        bool(capabilities & RESOURCE),
        bool(capabilities & 1),
    )


@pytest.mark.parametrize(
    ("existing", "writable", "users", "version"),
    [
        (["cgroup.controllers"], ["sys/fs/cgroup"], FULL_MAP, 2),
        (["cgroup.controllers"], [], FULL_MAP, 0),
        (["cgroup.controllers"], ["sys/fs/cgroup"], "0 1 1\n", 0),
        (["memory/tasks"], ["sys/fs/cgroup/memory"], FULL_MAP, 1),
        (["memory/tasks"], ["sys/fs/cgroup"], FULL_MAP, 0),
    ],
)
def test_cgroups_have_the_version_that_can_be_changed(
    files: Files, existing: list[str], writable: list[str], users: str, version: int
) -> None:
    for path in existing:
        files.write(f"sys/fs/cgroup/{path}", "")
    files.write("proc/self/uid_map", users)
    files.writable += writable
    assert Host.detect().cgroup_version == version


@pytest.mark.parametrize(("controllers", "mixed"), [(None, False), ("\n", False), ("memory\n", True)])
def test_both_versions_are_mixed_if_the_second_has_controllers(
    files: Files, controllers: str | None, mixed: bool
) -> None:
    if controllers is not None:
        files.write("sys/fs/cgroup/unified/cgroup.controllers", controllers)
    assert Host.detect().mixed_cgroups is mixed


def test_executable_is_searched_in_the_directories_of_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "SEARCH", str(tmp_path))
    assert find_executable("crun") == ""
    (tmp_path / "crun").touch(0o755)
    assert find_executable("crun") == str(tmp_path / "crun")
