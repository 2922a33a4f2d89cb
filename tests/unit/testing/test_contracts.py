"""Contract tests for the fakes."""

from __future__ import annotations

import asyncio
import threading

import pytest

from nodeagent.contracts.stats import FilesystemStats, PodUsage, VolumeUsage
from nodeagent.model.pod import EmptyDirVolume, Volume
from nodeagent.testing import (
    FakeCgroups,
    FakeClock,
    FakeImages,
    FakeObjects,
    FakeProber,
    FakePuller,
    FakeRecorder,
    FakeRuntime,
    FakeStats,
    FakeVolumes,
    make_container,
    make_pod,
)
from nodeagent.testing.contracts import (
    CgroupManagerContract,
    EventRecorderContract,
    ImagePullerContract,
    ImageServiceContract,
    ObjectReaderContract,
    PodSourceContract,
    ProberContract,
    RuntimeContract,
    StatsProviderContract,
    VolumeKindContract,
    VolumeManagerContract,
)
from nodeagent.testing.fakes import FakePodSource, FakeVolumeKind


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


class ThreadedPodSource:
    """Pod source that reads its pods in threads, first before it uses the clock."""

    name = "threaded"

    def __init__(self, clock):
        self.pods, self._clock = [], clock

    async def run(self, publish):
        published = None
        while True:
            pods = await asyncio.to_thread(self._read)
            if pods != published:
                published = pods
                publish(pods)
            await self._clock.sleep(10)

    def _read(self):
        threading.Event().wait(0.02)  # Longer than the event loop needs to become idle.
        return list(self.pods)


class TestThreadedPodSource(PodSourceContract):
    @pytest.fixture
    def clock(self):
        return FakeClock()  # Not in the event loop, as in the project that `nodeagent plugins new` creates.

    @pytest.fixture
    async def source(self, clock):
        return ThreadedPodSource(clock)

    @pytest.fixture
    async def set_pods(self, source):
        async def set_pods(names):
            containers = [make_container("main", image_pull_policy="Always")]
            source.pods = [make_pod(name, containers=containers, node_name="node-1") for name in names]

        return set_pods


class TestFakeVolumeKind(VolumeKindContract):
    @pytest.fixture
    def kind(self):
        return FakeVolumeKind()

    @pytest.fixture
    def volume(self):
        return Volume(name="data", empty_dir=EmptyDirVolume())


class TestFakeVolumes(VolumeManagerContract):
    @pytest.fixture
    async def volumes(self):
        return FakeVolumes()


class TestFakeRecorder(EventRecorderContract):
    @pytest.fixture
    async def recorder(self):
        return FakeRecorder()

    @pytest.fixture
    def emitted(self, recorder):
        async def emitted():
            return recorder.reasons()

        return emitted


class TestFakeObjects(ObjectReaderContract):
    @pytest.fixture
    async def objects(self, clock):
        return FakeObjects(clock)

    @pytest.fixture
    def put(self, objects):
        def put(kind, obj):
            stored = objects.secrets if kind == "Secret" else objects.config_maps
            stored[(obj["metadata"]["namespace"], obj["metadata"]["name"])] = obj

        return put


class TestFakePuller(ImagePullerContract):
    @pytest.fixture
    async def puller(self, present, pullable):
        images = FakeImages(open_registry=False)
        images.add(present)
        images.serve(pullable)
        return FakePuller(images)

    @pytest.fixture
    def present(self):
        return "reg.test/present:1"

    @pytest.fixture
    def pullable(self):
        return "reg.test/pullable:1"


class TestFakeProber(ProberContract):
    @pytest.fixture
    async def prober(self):
        return FakeProber()

    @pytest.fixture
    def pod(self):
        return make_pod(containers=[make_container("probed", readiness_probe={"exec": {"command": ["x"]}}), "plain"])

    @pytest.fixture
    async def observed(self, pod, clock):
        runtime = FakeRuntime(clock)
        for container in pod.spec.containers:
            runtime.start(container.name, pod)
        return runtime.pod(pod.uid)
