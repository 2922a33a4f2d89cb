"""Tests for project IDs of emptyDir volumes."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from nodeagent.base.project_quota import ProjectUsage
from nodeagent.base.release import Release, SelectedRelease
from nodeagent.config.features import build_gates
from nodeagent.testing import make_context, make_pod
from nodeagent_plugins.volumes import quotas
from nodeagent_plugins.volumes.quotas import FIRST_PROJECT, GATE, VolumeProjects

from .conftest import FakeMounter, new_manager, pod_with


class Kernel:
    """Project IDs by directory; *used* are the IDs with files."""

    def __init__(self):
        self.projects, self.used, self.supported = {}, set(), True

    def own_project(self, directory):
        return self.projects.get(directory, 0)

    def set_project(self, directory, project):
        self.projects[directory] = project
        self.used.add(project)

    def project_usage(self, directory, project):
        if not self.supported:
            raise OSError(errno.ESRCH, "No such process")
        return ProjectUsage(4096, int(project in self.used))


@pytest.fixture
def kernel(monkeypatch):
    kernel = Kernel()
    for name in ("own_project", "set_project", "project_usage"):
        monkeypatch.setattr(quotas, name, getattr(kernel, name))
    return kernel


def at(tmp_path, release="1.29", **gates):
    selected = Release.parse(release)
    return make_context(tmp_path, release=SelectedRelease(selected), gates=build_gates(gates, selected))


@pytest.mark.row("gate.LocalStorageCapacityIsolationFSQuotaMonitoring")
@pytest.mark.parametrize("enabled", [True, False])
async def test_volume_on_disk_has_a_project_if_the_gate_is_enabled(tmp_path, kernel, enabled):
    manager = new_manager(at(tmp_path, **{GATE: enabled}), FakeMounter())
    pod = pod_with({"name": "disk", "emptyDir": {}}, {"name": "memory", "emptyDir": {"medium": "Memory"}})

    mounted = await manager.prepare(pod)

    expected = {Path(mounted["disk"].host_path): FIRST_PROJECT} if enabled else {}
    assert kernel.projects == expected


async def test_mounted_volume_has_no_project_after_a_restart(tmp_path, kernel):
    context, mounter = at(tmp_path, **{GATE: True}), FakeMounter()
    pod = pod_with({"name": "memory", "emptyDir": {"medium": "Memory"}})
    await new_manager(context, mounter).prepare(pod)
    for marker in tmp_path.rglob("ready"):
        marker.unlink()

    await new_manager(context, mounter).prepare(pod)

    assert kernel.projects == {}


def test_used_and_reserved_projects_are_skipped(tmp_path, kernel):
    reserved = tmp_path / "projects"
    reserved.write_text(f"# comment\n{FIRST_PROJECT}:/srv\n")
    kernel.used = {FIRST_PROJECT + 1}
    projects = VolumeProjects(at(tmp_path, **{GATE: True}), reserved)
    for name in ("a", "b"):
        assert projects.assign(make_pod(), tmp_path / name)

    assert list(kernel.projects.values()) == [FIRST_PROJECT + 2, FIRST_PROJECT + 3]


def test_project_is_kept_after_a_restart(tmp_path, kernel):
    kernel.projects[tmp_path] = 2_000_000

    assert VolumeProjects(at(tmp_path, **{GATE: True})).assign(make_pod(), tmp_path)
    assert kernel.projects == {tmp_path: 2_000_000}


def test_file_system_without_project_quotas_is_not_monitored(tmp_path, kernel):
    kernel.supported = False

    assert not VolumeProjects(at(tmp_path, **{GATE: True})).assign(make_pod(), tmp_path)
    assert kernel.projects == {}


@pytest.mark.parametrize(
    ("release", "host_users", "assigned"),
    [("1.30", None, True), ("1.31", None, False), ("1.31", True, False), ("1.31", False, True)],
)
def test_user_namespace_is_required_since_1_31(tmp_path, kernel, release, host_users, assigned):
    projects = VolumeProjects(at(tmp_path, release, **{GATE: True}))

    assert projects.assign(make_pod(host_users=host_users), tmp_path) is assigned
