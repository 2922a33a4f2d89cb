"""Tests for modes and owners of volume directories, with real mounts."""

from __future__ import annotations

import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nodeagent.base.mounts import calls
from nodeagent.base.removal import remove_tree
from nodeagent.model.pod import Pod
from nodeagent.testing import make_container, make_context, make_pod
from nodeagent_plugins.pod_sync.subpaths import bind_subpath, release_subpaths
from nodeagent_plugins.volumes.empty_dir import EmptyDir
from nodeagent_plugins.volumes.manager import Manager
from nodeagent_plugins.volumes.mounts import LinuxMounter

GROUP = 4321

pytestmark = pytest.mark.integration


@pytest.fixture
async def manager(tmp_path: Path) -> AsyncIterator[Manager]:
    context, mounter = make_context(tmp_path), LinuxMounter()
    manager = Manager(context, [EmptyDir(context, mounter)], mounter)
    yield manager
    for uid in manager.pods_with_volumes():
        await manager.release(uid)


def pod_with(medium: str, **security: int) -> Pod:
    huge = {"hugepages-2Mi": "2Mi"}
    container = make_container(
        volume_mounts=[{"name": "v", "mountPath": "/v"}], resources={"limits": huge, "requests": huge}
    )
    volume = {"name": "v", "emptyDir": {"medium": medium}}
    return make_pod("web", containers=[container], volumes=[volume], security_context=security)


def owner_and_mode(path: Path | str) -> tuple[int, int, str]:
    status = Path(path).stat()
    return status.st_uid, status.st_gid, oct(stat.S_IMODE(status.st_mode))


@pytest.mark.parametrize(
    ("medium", "own", "grouped"),
    [("", "0o777", "0o2777"), ("Memory", "0o1777", "0o3777"), ("HugePages-2Mi", "0o755", "0o2775")],
)
async def test_mode_of_empty_dir_and_sub_path_follows_medium(
    manager: Manager, tmp_path: Path, medium: str, own: str, grouped: str
) -> None:
    for pod, expected in ((pod_with(medium), (0, 0, own)), (pod_with(medium, fsGroup=GROUP), (0, GROUP, grouped))):
        directory = (await manager.prepare(pod))["v"].host_path
        subpaths = tmp_path / "volume-subpaths"
        part = bind_subpath(directory, "some/part", subpaths / "v" / "main" / "0", create=True)
        found = owner_and_mode(directory), owner_and_mode(part)
        release_subpaths(subpaths)
        await manager.release(pod.uid)

        assert found == (expected, expected)


def test_removal_stops_at_a_bind_inside_one_file_system(tmp_path: Path) -> None:
    data, inside = tmp_path / "data", tmp_path / "tree" / "a" / "bind"
    data.mkdir()
    inside.mkdir(parents=True)
    (data / "file").write_text("kept")
    calls.bind(data, inside)
    try:
        with pytest.raises(OSError, match="mounted here"):
            remove_tree(tmp_path / "tree")
        with pytest.raises(OSError, match="mounted here"):
            remove_tree(tmp_path / "tree" / "a")
        assert (data / "file").read_text() == "kept"
    finally:
        calls.unmount(inside)
    remove_tree(tmp_path / "tree")
    assert (data / "file").read_text() == "kept"
