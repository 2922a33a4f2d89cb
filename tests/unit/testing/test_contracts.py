"""The fakes keep the contracts that they stand in for."""

from __future__ import annotations

import pytest

from nodeagent.contracts.stats import FilesystemStats, PodUsage, VolumeUsage
from nodeagent.model.pod import EmptyDirVolume, Volume
from nodeagent.testing import FakeCgroups, FakeImages, FakeRuntime, FakeStats
from nodeagent.testing.contracts import (
    CgroupManagerContract,
    ImageServiceContract,
    PodSourceContract,
    RuntimeContract,
    StatsProviderContract,
    VolumeKindContract,
)
from nodeagent.testing.parts import FakePodSource, FakeVolumeKind


class TestFakeRuntime(RuntimeContract):
    @pytest.fixture
    async def runtime(self, clock):
        return FakeRuntime(clock)

    @pytest.fixture
    def command(self, runtime):
        def command(name, exit_code):
            runtime.behave(name, exit_code=exit_code)
            return {}

        return command


class TestFakeImages(ImageServiceContract):
    @pytest.fixture
    async def images(self):
        images = FakeImages(open_registry=False)
        images.add("docker.io/library/busybox:1")
        return images

    @pytest.fixture
    def present(self):
        return "docker.io/library/busybox:1"


class TestFakeCgroups(CgroupManagerContract):
    @pytest.fixture
    async def cgroups(self):
        return FakeCgroups()


class TestFakeStats(StatsProviderContract):
    @pytest.fixture
    async def stats(self):
        volume = VolumeUsage("data", FilesystemStats(1))
        return FakeStats(pods=[PodUsage("u1", "default", "web", 1, volumes=[volume])])

    @pytest.fixture
    def running(self):
        return ["u1"]


class TestFakePodSource(PodSourceContract):
    @pytest.fixture
    async def source(self):
        return FakePodSource()

    @pytest.fixture
    async def set_pods(self, source):
        async def set_pods(names):
            source.set(*names)

        return set_pods


class TestFakeVolumeKind(VolumeKindContract):
    @pytest.fixture
    def kind(self):
        return FakeVolumeKind()

    @pytest.fixture
    def volume(self):
        return Volume(name="data", empty_dir=EmptyDirVolume())
