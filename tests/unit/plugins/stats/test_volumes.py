"""Tests for volume usage."""

from __future__ import annotations

import asyncio
import errno

import pytest

from nodeagent.base.duration import Duration
from nodeagent.base.project_quota import ProjectUsage
from nodeagent.config.features import build_gates
from nodeagent.model.pod import Volume
from nodeagent.testing import eventually, make_config, make_context, make_pod
from nodeagent_plugins.stats import volumes as volumes_module
from nodeagent_plugins.stats.volumes import WALKS, VolumeMeter

VOLUMES = [
    {"name": "scratch", "emptyDir": {}},
    {"name": "memory", "emptyDir": {"medium": "Memory"}},
    {"name": "settings", "configMap": {"name": "settings"}},
    {"name": "claim", "persistentVolumeClaim": {"claimName": "data"}},
    {"name": "own", "ephemeral": {"volumeClaimTemplate": {}}},
    {"name": "host", "hostPath": {"path": "/"}},
]
KINDS = {
    "scratch": "kubernetes.io~empty-dir",
    "memory": "kubernetes.io~empty-dir",
    "settings": "kubernetes.io~configmap",
    "claim": "kubernetes.io~csi",
    "own": "kubernetes.io~csi",
}


def make_meter(tmp_path, clock, seconds, jitter=lambda: 0.5):
    context = make_context(
        tmp_path, clock=clock, config=make_config(volume_stats_agg_period=Duration.of(seconds=seconds))
    )
    pod = make_pod("web", volumes=VOLUMES)
    context.pods.add(pod)
    for volume, kind in KINDS.items():
        (context.pod_dir(pod.uid) / "volumes" / kind / volume).mkdir(parents=True)
    return VolumeMeter(context, jitter), pod, context


@pytest.fixture
async def run():
    tasks = []

    def run(meter):
        tasks.append(asyncio.create_task(meter.run()))

    yield run
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def scratch(meter, pod):
    return next(v.filesystem.used_bytes for v in meter.latest(pod.uid) if v.name == "scratch")


async def test_each_volume_with_a_directory_is_measured(tmp_path, clock, run):
    meter, pod, _ = make_meter(tmp_path, clock, 60)

    run(meter)
    await eventually(lambda: meter.latest(pod.uid))

    assert {v.name: (v.claim, v.local_ephemeral) for v in meter.latest(pod.uid)} == {
        "scratch": (None, True),
        "memory": (None, False),
        "settings": (None, True),
        "claim": (("default", "data"), False),
        "own": (("default", "web-own"), False),
    }
    assert all(v.filesystem.capacity_bytes for v in meter.latest(pod.uid))


@pytest.mark.row("config.volumeStatsAggPeriod")
async def test_volumes_are_measured_again_after_the_period_and_its_jitter(tmp_path, clock, run):
    meter, pod, context = make_meter(tmp_path, clock, 60)
    run(meter)
    await eventually(lambda: meter.latest(pod.uid))
    empty = scratch(meter, pod)
    path = context.pod_dir(pod.uid) / "volumes" / KINDS["scratch"] / "scratch"
    (path / "data").write_bytes(b"x" * 100_000)

    for _ in range(8):
        await clock.advance(10)
    assert scratch(meter, pod) == empty
    for _ in range(2):
        await clock.advance(10)

    await eventually(lambda: scratch(meter, pod) >= empty + 100_000)


@pytest.mark.row("config.volumeStatsAggPeriod")
async def test_negative_period_disables_the_measurement(tmp_path, clock, run):
    meter, pod, _ = make_meter(tmp_path, clock, -1)

    run(meter)
    for _ in range(10):
        await clock.advance(60)

    assert meter.latest(pod.uid) == ()


async def test_new_pod_is_measured_before_the_period(tmp_path, clock, run):
    meter, pod, context = make_meter(tmp_path, clock, 3600)
    run(meter)
    await eventually(lambda: meter.latest(pod.uid))
    late = context.pods.add(make_pod("late", volumes=[{"name": "scratch", "emptyDir": {}}]))
    (context.pod_dir(late.uid) / "volumes" / KINDS["scratch"] / "scratch").mkdir(parents=True)

    await clock.advance(10)

    await eventually(lambda: meter.latest(late.uid))


async def test_results_of_a_removed_pod_are_dropped(tmp_path, clock, run):
    meter, pod, context = make_meter(tmp_path, clock, 60)
    run(meter)
    await eventually(lambda: meter.latest(pod.uid))

    del context.pods.pods[pod.uid]
    await clock.advance(10)

    await eventually(lambda: meter.latest(pod.uid) == ())


def test_unknown_volume_type_is_not_local():
    from nodeagent_plugins.stats.volumes import is_local_ephemeral

    assert not is_local_ephemeral(Volume(name="a", csi={}))


async def test_each_directory_walk_is_timed(tmp_path, clock):
    meter, _, _ = make_meter(tmp_path, clock, 60)
    before = WALKS.count("du")

    await meter.measure_now()

    assert WALKS.count("du") == before + len(KINDS)


@pytest.mark.row("gate.LocalStorageCapacityIsolationFSQuotaMonitoring")
@pytest.mark.parametrize(("enabled", "supported"), [(True, True), (True, False), (False, True)])
async def test_accounted_usage_replaces_the_walk(tmp_path, clock, monkeypatch, enabled, supported):
    def project_usage(directory, project):
        if not supported:
            raise OSError(errno.ESRCH, "No such process")
        return ProjectUsage(project * 1000, 42)

    monkeypatch.setattr(volumes_module, "own_project", lambda directory: 7 if directory.name == "scratch" else 0)
    monkeypatch.setattr(volumes_module, "project_usage", project_usage)
    _, pod, context = make_meter(tmp_path, clock, 60)
    context.gates = build_gates({"LocalStorageCapacityIsolationFSQuotaMonitoring": enabled})
    meter, walks = VolumeMeter(context), WALKS.count("du")

    await meter.measure_now()

    scratch = next(volume.filesystem for volume in meter.latest(pod.uid) if volume.name == "scratch")
    accounted = enabled and supported
    assert ((scratch.used_bytes, scratch.inodes_used) == (7000, 42)) is accounted
    assert WALKS.count("du") - walks == len(meter.latest(pod.uid)) - accounted


async def test_failed_walk_keeps_the_previous_usage(tmp_path, clock, monkeypatch):
    meter, pod, context = make_meter(tmp_path, clock, 60)
    (context.pod_dir(pod.uid) / "volumes" / KINDS["memory"] / "memory").rmdir()
    await meter.measure_now()
    before = {volume.name: volume for volume in meter.latest(pod.uid)}

    def fail(*_):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(volumes_module, "filesystem", fail)
    (context.pod_dir(pod.uid) / "volumes" / KINDS["memory"] / "memory").mkdir()
    await meter.measure_now()

    assert {volume.name: volume for volume in meter.latest(pod.uid)} == before
    assert "memory" not in before


async def test_period_of_zero_disables_the_measurement(tmp_path, clock, run):
    meter, pod, _ = make_meter(tmp_path, clock, 0)

    run(meter)
    await clock.advance(60)

    assert meter.latest(pod.uid) == ()
