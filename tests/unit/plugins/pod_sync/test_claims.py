"""Tests for groups and sub-paths of volumes with claims."""

from __future__ import annotations

import os
from pathlib import Path

from nodeagent.contracts.runtime import ContainerSecurity
from nodeagent.contracts.volumes import MountedVolume
from nodeagent.errors import VolumesNotReady
from nodeagent.testing import make_container, make_pod
from nodeagent_plugins.pod_sync.mounts import HostsContent, prepare_files, volume_parts
from nodeagent_plugins.pod_sync.paths import PodPaths
from nodeagent_plugins.pod_sync.volume_groups import with_volume_groups

from .conftest import Bench


def test_groups_of_volumes_are_added_once() -> None:
    volumes = {
        name: MountedVolume(name, "/v", supplemental_group=group)
        for name, group in (("a", 7), ("b", 5), ("c", 7), ("d", None))
    }
    security = with_volume_groups(ContainerSecurity(supplemental_groups=(5, 1)), volumes)
    assert security.supplemental_groups == (5, 1, 7)


def test_sub_path_is_bound_under_the_name_of_the_persistent_volume(tmp_path: Path) -> None:
    (tmp_path / "volume/sub").mkdir(parents=True)
    paths = PodPaths(tmp_path / "pods/u", tmp_path / "log", tmp_path / "log/pods", "default", "web", "u")
    container = make_container("main", volume_mounts=[{"name": "v", "mountPath": "/d", "subPath": "sub"}])
    parts = volume_parts(container, {"v": MountedVolume("v", str(tmp_path / "volume"), volume_name="pv-1")}, {})
    bound: list[str] = []

    def bind(source: Path, target: Path) -> None:
        bound.append(f"{os.readlink(source)} {target}")

    prepare_files(make_pod(), container, 0, paths, parts, HostsContent((), "web", ""), first=True, bind=bind)
    assert bound == [f"{tmp_path}/volume/sub {tmp_path}/pods/u/volume-subpaths/pv-1/main/0"]


async def test_timed_out_wait_for_volumes_records_no_event(bench: Bench) -> None:
    pod = make_pod(volumes=[{"name": "v", "emptyDir": {}}])
    bench.context.volumes.fail("prepare", VolumesNotReady("context deadline exceeded"))  # type: ignore[attr-defined]
    outcome = await bench.sync(pod)
    assert isinstance(outcome.error, VolumesNotReady) and bench.notes("FailedMount") == []
