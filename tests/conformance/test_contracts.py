"""Contract tests of bundled runtimes, pod sources, volume kinds and cgroup managers, on the real system."""

from __future__ import annotations

import json
import os
import time
import uuid
from pathlib import Path

import pytest

from nodeagent.base.aio import SystemClock
from nodeagent.model.pod import EmptyDirVolume, HostPathVolume, Volume
from nodeagent.testing import load_plugin, make_config, make_context
from nodeagent.testing.contracts import (
    CgroupManagerContract,
    FalliblePodSourceContract,
    ImageServiceContract,
    RuntimeContract,
    VolumeKindContract,
)
from nodeagent_plugins import cgroups as cgroups_plugin
from nodeagent_plugins.cri.client import CriRuntime
from nodeagent_plugins.cri.connection import Connection
from nodeagent_plugins.cri.image_service import CriImageService
from nodeagent_plugins.pod_source_file import FilePodSource
from nodeagent_plugins.pod_source_http import FetchError, HttpPodSource
from nodeagent_plugins.volumes.empty_dir import EmptyDir
from nodeagent_plugins.volumes.mounts import LinuxMounter
from tests.integration.images import BUSYBOX_IMAGE


async def connect(containerd):
    runtime = CriRuntime(Connection(containerd.endpoint, timeout_seconds=30), SystemClock())
    yield runtime
    await runtime.close()


@pytest.mark.integration
@pytest.mark.row("card.cri")
class TestCriRuntime(RuntimeContract):
    @pytest.fixture
    async def runtime(self, containerd):
        async for runtime in connect(containerd):
            yield runtime

    @pytest.fixture
    def log_directory(self, tmp_path):
        return str(tmp_path / "logs")

    @pytest.fixture
    def command(self):
        def command(name, exit_code):
            script = "trap 'exit 143' TERM; sleep 1000 & wait" if exit_code is None else f"exit {exit_code}"
            return {"image": BUSYBOX_IMAGE, "command": ("sh", "-c", script)}

        return command


@pytest.mark.integration
class TestCriImages(ImageServiceContract):
    @pytest.fixture
    async def images(self, containerd):
        async for runtime in connect(containerd):
            yield CriImageService(runtime.connection)

    @pytest.fixture
    def present(self):
        return BUSYBOX_IMAGE


def manifest(name):
    containers = [{"name": "c", "image": "a:1"}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": containers}}


class TestFileSource(FalliblePodSourceContract):
    @pytest.fixture
    def directory(self, tmp_path):
        (tmp_path / "manifests").mkdir()
        return tmp_path / "manifests"

    @pytest.fixture
    async def source(self, directory, clock):
        return FilePodSource(directory, "node-1", clock, 20)

    @pytest.fixture
    async def set_pods(self, directory):
        async def set_pods(names):
            for file in directory.iterdir():
                file.unlink()
            for name in names:
                path = directory / f"{name}.json"
                path.write_text(json.dumps(manifest(name)))
                os.utime(path, (time.time() - 5,) * 2)

        return set_pods

    @pytest.fixture
    async def break_source(self, directory):
        async def break_source():
            for file in directory.iterdir():
                file.write_text("{")

        return break_source


class TestHttpSource(FalliblePodSourceContract):
    @pytest.fixture
    def content(self):
        return [b""]

    @pytest.fixture
    async def source(self, content, clock):
        async def fetch():
            if isinstance(content[0], Exception):
                raise content[0]
            return content[0]

        return HttpPodSource("http://config.test/", fetch, "node-1", clock, 20)

    @pytest.fixture
    async def set_pods(self, content):
        async def set_pods(names):
            content[0] = json.dumps({"kind": "PodList", "items": [manifest(name) for name in names]}).encode()

        return set_pods

    @pytest.fixture
    async def break_source(self, content):
        async def break_source():
            content[0] = FetchError("status 500")

        return break_source


class TestEmptyDir(VolumeKindContract):
    @pytest.fixture
    def kind(self, tmp_path):
        return EmptyDir(make_context(tmp_path), LinuxMounter())

    @pytest.fixture
    def volume(self):
        return Volume(name="data", empty_dir=EmptyDirVolume())

    @pytest.fixture
    def other(self):
        return Volume(name="other", host_path=HostPathVolume(path="/"))


@pytest.mark.integration
class TestCgroupFiles(CgroupManagerContract):
    @pytest.fixture
    async def cgroups(self, tmp_path):
        root = f"nodeagent-test-{uuid.uuid4().hex[:8]}"
        context = make_context(tmp_path, config=make_config(cgroup_root=f"/{root}"))
        yield load_plugin(cgroups_plugin).provide("nodeagent_provide_cgroups", context=context)
        mount = Path("/sys/fs/cgroup")
        for path in [*mount.glob(f"*/{root}"), *mount.glob(root)]:
            for directory, _, _ in os.walk(path, topdown=False):
                os.rmdir(directory)
