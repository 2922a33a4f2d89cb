"""Tests for emptyDir volumes."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from nodeagent.contracts.context import AgentContext
from nodeagent.contracts.runtime import LinuxResources
from nodeagent.errors import VolumeError
from nodeagent.testing import FakeCgroups, make_config, make_container, make_context, make_pod
from nodeagent_plugins.volumes.manager import Manager
from nodeagent_plugins.volumes.quotas import VolumeProjects

from .conftest import FakeMounter, new_manager, pod_with


async def test_directory_is_writable_for_all_below_the_pod(manager: Manager, context: AgentContext) -> None:
    pod = pod_with({"name": "scratch", "emptyDir": {}})

    volume = (await manager.prepare(pod))["scratch"]

    path = Path(volume.host_path)
    assert path == context.pod_dir(pod.uid) / "volumes/kubernetes.io~empty-dir/scratch"
    assert stat.S_IMODE(path.stat().st_mode) == 0o777
    assert not volume.readonly


async def test_restart_changes_nothing(manager: Manager, context: AgentContext, mounter: FakeMounter) -> None:
    pod = pod_with({"name": "scratch", "emptyDir": {}}, security_context={"fsGroup": os.getgid()})
    path = Path((await manager.prepare(pod))["scratch"].host_path)
    (path / "mine").write_text("kept")
    path.chmod(0o700)

    await new_manager(context, mounter).prepare(pod)

    assert (path / "mine").read_text() == "kept"
    assert stat.S_IMODE(path.stat().st_mode) == 0o700


async def test_memory_is_mounted_once(manager: Manager, context: AgentContext, mounter: FakeMounter) -> None:
    pod = pod_with({"name": "mem", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}})

    path = Path((await manager.prepare(pod))["mem"].host_path)
    mounter.fails = OSError(16, "busy")
    await new_manager(context, mounter).prepare(pod)

    assert mounter.mounts == {path: ("tmpfs", "size=1048576")}


async def test_memory_is_mounted_again_after_a_reboot(
    manager: Manager, context: AgentContext, mounter: FakeMounter
) -> None:
    pod = pod_with({"name": "mem", "emptyDir": {"medium": "Memory"}})
    await manager.prepare(pod)
    mounter.mounts.clear()

    await new_manager(context, mounter).prepare(pod)

    assert len(mounter.mounts) == 1


@pytest.mark.parametrize(
    ("size_limit", "pod_limit", "allocatable", "size"),
    [
        ("1Mi", 0, "8Mi", 1 << 20),
        ("4Mi", 2 << 20, "8Mi", 2 << 20),
        ("64Mi", 0, "8Mi", 8 << 20),
        (None, 0, "8Mi", 8 << 20),
        (None, 2 << 20, "8Mi", 2 << 20),
    ],
)
async def test_memory_size_is_the_minimum_of_volume_pod_and_node(
    manager: Manager,
    context: AgentContext,
    mounter: FakeMounter,
    node: dict[str, Any],
    size_limit: str | None,
    pod_limit: int,
    allocatable: str,
    size: int,
) -> None:
    node["status"] = {"allocatable": {"memory": allocatable}}
    assert isinstance(context.cgroups, FakeCgroups)
    context.cgroups.resources = lambda _pod, _container: LinuxResources(memory_limit_bytes=pod_limit)

    await manager.prepare(pod_with({"name": "mem", "emptyDir": {"medium": "Memory", "sizeLimit": size_limit}}))

    assert list(mounter.mounts.values()) == [("tmpfs", f"size={size}")]


async def test_memory_has_no_size_without_the_gate(tmp_path: Path, mounter: FakeMounter) -> None:
    config = make_config(feature_gates={"SizeMemoryBackedVolumes": False})
    manager = new_manager(make_context(tmp_path, config=config), mounter)

    await manager.prepare(pod_with({"name": "mem", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}))

    assert list(mounter.mounts.values()) == [("tmpfs", "")]


@pytest.mark.parametrize(
    ("medium", "requested", "outcome"),
    [
        ("HugePages", ["hugepages-2Mi"], "pagesize=2097152"),
        ("HugePages-1Gi", ["hugepages-2Mi", "hugepages-1Gi"], "pagesize=1073741824"),
        ("HugePages", ["hugepages-2Mi", "hugepages-1Gi"], "request 2 sizes"),
        ("HugePages", [], "request 0 sizes"),
        ("HugePages-1Gi", ["hugepages-2Mi"], "no container of the pod requests"),
        ("HugePages-x", ["hugepages-2Mi"], "page size is not a quantity"),
        ("Tape", [], "unknown storage medium 'Tape'"),
    ],
)
async def test_huge_pages_have_the_requested_page_size(
    manager: Manager, mounter: FakeMounter, medium: str, requested: list[str], outcome: str
) -> None:
    container = make_container(
        volume_mounts=[{"name": "v", "mountPath": "/v"}],
        resources={"limits": dict.fromkeys(requested, "1Gi"), "requests": dict.fromkeys(requested, "1Gi")},
    )
    pod = make_pod(containers=[container], volumes=[{"name": "v", "emptyDir": {"medium": medium}}])

    if "=" in outcome:
        await manager.prepare(pod)
        assert list(mounter.mounts.values()) == [("hugetlbfs", outcome)]
    else:
        with pytest.raises(VolumeError, match=outcome):
            await manager.prepare(pod)


@pytest.mark.parametrize(
    ("medium", "own", "grouped"),
    [("", 0o777, 0o2777), ("Memory", 0o1777, 0o3777), ("HugePages-2Mi", 0o755, 0o2775)],
)
async def test_mode_depends_on_medium_and_fs_group(manager: Manager, medium: str, own: int, grouped: int) -> None:
    huge = {"hugepages-2Mi": "2Mi"}
    container = make_container(
        volume_mounts=[{"name": "v", "mountPath": "/v"}], resources={"limits": huge, "requests": huge}
    )
    spec = {"containers": [container], "volumes": [{"name": "v", "emptyDir": {"medium": medium}}]}
    plain, group = make_pod("plain", **spec), make_pod("group", **spec, security_context={"fsGroup": os.getgid()})

    modes = [stat.S_IMODE(Path((await manager.prepare(pod))["v"].host_path).stat().st_mode) for pod in (plain, group)]

    assert modes == [own, grouped]


async def test_fs_group_owns_the_directory(manager: Manager) -> None:
    pod = pod_with({"name": "scratch", "emptyDir": {}}, security_context={"fsGroup": os.getgid()})

    path = Path((await manager.prepare(pod))["scratch"].host_path)

    assert path.stat().st_gid == os.getgid()
    assert path.stat().st_mode & stat.S_ISGID


async def test_only_a_directory_on_disk_is_measured_by_a_project(
    context: AgentContext, mounter: FakeMounter, monkeypatch: pytest.MonkeyPatch
) -> None:
    assigned: list[str] = []
    monkeypatch.setattr(VolumeProjects, "assign", lambda self, pod, directory: assigned.append(directory.name))
    pod = pod_with({"name": "disk", "emptyDir": {}}, {"name": "memory", "emptyDir": {"medium": "Memory"}})
    await new_manager(context, mounter).prepare(pod)
    for marker in context.pod_dir(pod.uid).rglob("ready"):
        marker.unlink()

    await new_manager(context, mounter).prepare(pod)

    assert assigned == ["disk", "disk"]
