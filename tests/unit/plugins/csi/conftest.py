"""Fixtures: a driver of CSI on a Unix socket, and the kind that calls it."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
from pathlib import Path

import grpc.aio
import pytest
import pytest_asyncio

from nodeagent.base.release import Release, SelectedRelease
from nodeagent.contracts.api import CSI_DRIVERS, SECRETS, VOLUME_ATTACHMENTS
from nodeagent.contracts.persistent_volumes import MountRequest, VolumeMode, VolumeOnDisk, VolumeSpec
from nodeagent.model.meta import ObjectMeta
from nodeagent.model.persistent_volume import (
    CsiPersistentVolumeSource,
    PersistentVolume,
    PersistentVolumeSpec,
    SecretReference,
)
from nodeagent.model.pod import Volume
from nodeagent.testing.api import FakeApi
from nodeagent.testing.context import make_context
from nodeagent.testing.pods import make_pod
from nodeagent_plugins.csi.driver_objects import DriverObjects
from nodeagent_plugins.csi.drivers import Driver, Drivers
from nodeagent_plugins.csi.kind import CsiVolumes
from nodeagent_plugins.csi.names import attachment_name
from tests.csi_driver import NodeService, NoMounts, Storage, serve

DRIVER, HANDLE = "test.csi.example", "volume-1"


@pytest_asyncio.fixture(scope="session", loop_scope="session", autouse=True)
async def grpc_thread():
    """Start gRPC's thread for the session, so that the first test that needs it does not leak it."""
    grpc.aio.init_grpc_aio()
    yield
    grpc.aio.shutdown_grpc_aio()


@pytest.fixture
def short_path():
    """A directory whose path is short enough for sockets."""
    path = Path(tempfile.mkdtemp(prefix="na-"))
    yield path
    shutil.rmtree(path)


class Harness:
    """The kind, a driver, and the API server."""

    def __init__(self, root: Path, short_path: Path, clock, release=(1, 29)):
        self.api = FakeApi(clock)
        self.context = make_context(
            root, api=self.api, clock=clock, release=SelectedRelease(Release(*release)), node_name="node-1"
        )
        self.root, self.socket = root, short_path / "csi.sock"
        self.storage = Storage(short_path / "driver", NoMounts())
        self.service = NodeService(DRIVER, self.storage)
        self.faults = self.service.faults
        self.drivers = Drivers()
        self.specs = DriverObjects(self.api, clock)
        self.kind = CsiVolumes(self.context, self.drivers, self.specs)
        self.put_driver(attachRequired=False, fsGroupPolicy="ReadWriteOnceWithFSType")

    def register(self) -> None:
        self.drivers.add(Driver(DRIVER, str(self.socket)))

    def put_driver(self, **spec):
        self.api.put(CSI_DRIVERS, {"metadata": {"name": DRIVER}, "spec": spec})

    def put_secret(self, name, namespace="default", **data):
        self.api.put(SECRETS, {"metadata": {"name": name, "namespace": namespace}, "data": data})

    def attach(self, **status):
        name = attachment_name(HANDLE, DRIVER, "node-1")
        self.api.put(VOLUME_ATTACHMENTS, {"metadata": {"name": name}, "status": {"attached": True, **status}})
        return name

    def spec(self, *, mode=VolumeMode.FILESYSTEM, read_only=False, options=None, access=("ReadWriteOnce",), **source):
        fields = {"driver": DRIVER, "volume_handle": HANDLE, **source}
        for name, value in fields.items():
            if name.endswith("_ref"):
                fields[name] = SecretReference(name=value, namespace="default")
        volume = PersistentVolume(
            metadata=ObjectMeta(name="pv-1"),
            spec=PersistentVolumeSpec(
                csi=CsiPersistentVolumeSource(**fields), access_modes=list(access), mount_options=options
            ),
        )
        return VolumeSpec("pv-1", Volume(name="data"), volume, read_only=read_only, mode=mode)

    def inline(self, **fields):
        return VolumeSpec("data", Volume(name="data", csi={"driver": DRIVER, **fields}))

    def request(self, spec=None, pod=None, **fields):
        spec = spec or self.spec()
        pod = pod or make_pod()
        parent = "volumeDevices" if spec.mode is VolumeMode.BLOCK else "volumes"
        directory = self.root / "pods" / pod.uid / parent / "kubernetes.io~csi" / spec.name
        directory.parent.mkdir(parents=True, exist_ok=True)
        return MountRequest(pod, spec, directory, **fields)

    def on_disk(self, request, **fields):
        return VolumeOnDisk(request.pod.uid, request.spec.name, request.directory, request.spec.mode, **fields)

    def call(self, method):
        """Return the last request of *method*."""
        return self.storage.calls(method)[-1]


@pytest.fixture
async def make_harness(tmp_path, short_path, clock):
    async with contextlib.AsyncExitStack() as stack:

        async def make(*, registered=True, capabilities=(1,), **fields):
            harness = Harness(tmp_path, short_path, clock, **fields)
            harness.service.capabilities = list(capabilities)
            await stack.enter_async_context(serve(harness.service, harness.socket))
            watch = asyncio.create_task(harness.specs.run())
            stack.callback(watch.cancel)
            stack.push_async_callback(harness.context.cleanup.aclose)
            await clock.settle()
            if registered:
                harness.register()
            return harness

        yield make


@pytest.fixture
async def harness(make_harness):
    return await make_harness()
