"""Tests for the usage of volumes of claims and drivers."""

from __future__ import annotations

import asyncio
import os
import threading

import pytest

from nodeagent.contracts.persistent_volumes import VolumeFigures, VolumeState
from nodeagent.contracts.stats import FilesystemStats, VolumeUsage
from nodeagent.errors import VolumeError
from nodeagent.testing import make_context, make_pod
from nodeagent.testing.fakes import FakeVolumes
from nodeagent_plugins.stats import persistent_volumes
from nodeagent_plugins.stats.persistent_volumes import PersistentVolumeMeter
from nodeagent_plugins.stats.volumes import WALKS


class Volumes(FakeVolumes):
    """Volume manager with states and figures that the test sets."""

    def __init__(self):
        super().__init__()
        self.figures, self.found, self.hanging = {}, [], asyncio.Event()

    def add(self, volume, plugin="kubernetes.io/csi:d", phase="Mounted", path="", claim="c"):
        self.found.append(
            VolumeState("uid-web", volume, f"pv-{volume}", "k", plugin, phase, path, claim, "default" if claim else "")
        )

    def states(self, pod_uid=""):
        return self.found

    async def measure(self, pod_uid, volume):
        figures = self.figures.get(volume)
        if figures == "hangs":
            await self.hanging.wait()
            return None
        if isinstance(figures, Exception):
            raise figures
        return figures


@pytest.fixture
def volumes(monkeypatch):
    monkeypatch.setattr(persistent_volumes, "WAIT_SECONDS", 0.05)
    return Volumes()


@pytest.fixture
async def context(tmp_path, clock, volumes):
    made = make_context(tmp_path, clock=clock, volumes=volumes)
    yield made
    volumes.hanging.set()
    await made.tasks.close()
    await made.cleanup.aclose()


@pytest.fixture
def meter(context):
    return PersistentVolumeMeter(context, WALKS)


def pod(*names):
    return make_pod("web", volumes=[{"name": name, "persistentVolumeClaim": {"claimName": "c"}} for name in names])


async def test_figures_of_a_driver_have_the_names_of_volume_and_claim(meter, volumes):
    volumes.add("data")
    volumes.figures["data"] = VolumeFigures(1, 2, 3, 4, 5, 6)

    usage = (await meter.update(pod("data")))["data"]

    stats = FilesystemStats(usage.filesystem.time, 1, 2, 3, inodes_free=5, inodes=4, inodes_used=6)
    assert usage == VolumeUsage("data", stats, ("default", "c"))
    assert WALKS.count("d")


async def test_abnormal_volume_is_reported_with_an_event(meter, volumes, context):
    volumes.add("data")
    volumes.figures["data"] = VolumeFigures(1, 2, 3, abnormal=True, message="disk is failing")

    usage = (await meter.update(pod("data")))["data"]

    assert usage.abnormal is True
    assert [(e.reason, e.note) for e in context.recorder.events] == [
        ("VolumeConditionAbnormal", "Volume data: disk is failing")
    ]


async def test_hanging_driver_does_not_delay_other_volumes(meter, volumes):
    for name in ("slow", "quick"):
        volumes.add(name)
    volumes.figures = {"slow": "hangs", "quick": VolumeFigures(1, 2, 3)}

    for _ in range(2):
        usage = await meter.update(pod("slow", "quick"))

    assert usage["slow"] is None and usage["quick"].filesystem.used_bytes == 3


async def test_failed_measurement_keeps_the_previous_figures(meter, volumes):
    volumes.add("data")
    volumes.figures["data"] = VolumeFigures(used=3)
    await meter.update(pod("data"))
    volumes.figures["data"] = VolumeError("the driver is down")

    assert (await meter.update(pod("data")))["data"].filesystem.used_bytes == 3


async def test_volume_without_figures_or_mount_is_omitted(meter, volumes):
    volumes.add("unmeasured")
    volumes.add("pending", phase="Staging")
    volumes.add("directory", plugin="kubernetes.io/host-path", path=os.getcwd())

    usage = await meter.update(pod("unmeasured", "pending", "directory"))

    assert usage == {"unmeasured": None, "pending": None, "directory": None}


async def test_mounted_file_system_is_measured(meter, volumes):
    volumes.add("share", plugin="kubernetes.io/nfs", path="/proc")

    assert (await meter.update(pod("share")))["share"].claim == ("default", "c")


async def test_server_that_does_not_respond_delays_only_its_volumes(meter, volumes, monkeypatch):
    responds = threading.Event()
    monkeypatch.setattr(persistent_volumes, "_file_system", lambda path, now: responds.wait(10) and None)
    volumes.add("shared", plugin="kubernetes.io/nfs", path="/srv", claim="")
    inline = make_pod("web", volumes=[{"name": "shared", "nfs": {"server": "server", "path": "/"}}])

    assert await meter.update(inline) == {"shared": None}
    responds.set()


async def test_other_volume_managers_measure_nothing(tmp_path, clock):
    context = make_context(tmp_path, clock=clock)
    assert await PersistentVolumeMeter(context, WALKS).update(pod("data")) == {}
    await context.cleanup.aclose()


async def test_figures_of_other_pods_remain_if_one_is_removed(meter, volumes):
    volumes.add("data")
    volumes.figures["data"] = VolumeFigures(used=3)
    await meter.update(pod("data"))
    volumes.figures["data"] = VolumeError("the driver is down")

    meter.forget(["uid-other"])
    assert (await meter.update(pod("data")))["data"] is not None
    meter.forget(["uid-web"])
    assert (await meter.update(pod("data")))["data"] is None


async def test_volume_of_a_driver_without_figures_is_not_measured_otherwise(meter, volumes, context):
    volumes.add("data", path="/proc")
    volumes.add("healthy")
    volumes.figures["healthy"] = VolumeFigures(used=3, abnormal=False, message="fine")

    usage = await meter.update(pod("data", "healthy"))

    assert (usage["data"], usage["healthy"].abnormal) == (None, False)
    assert context.recorder.events == []


@pytest.mark.parametrize(
    ("source", "persistent"),
    [
        ({"persistentVolumeClaim": {"claimName": "c"}}, True),
        ({"ephemeral": {}}, True),
        ({"csi": {"driver": "d"}}, True),
        ({"nfs": {"server": "s", "path": "/"}}, True),
        ({"emptyDir": {}}, False),
        ({"hostPath": {"path": "/"}}, False),
    ],
)
def test_volumes_that_may_hang_are_measured_by_their_driver(source, persistent):
    (volume,) = make_pod(volumes=[{"name": "v", **source}]).spec.volumes

    assert persistent_volumes.is_persistent(volume) is persistent
