"""Tests of files that the agent must not lose with the power of the node."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nodeagent.base.simulation.disk import SimulatedDisk
from nodeagent.contracts.image_pins import read_pins, write_pins
from nodeagent.testing import make_pod
from nodeagent_plugins.claims.checkpoint import Checkpoint as ClaimCheckpoint
from nodeagent_plugins.pod_sync.user_namespaces import IdPool, PodUserNamespaces
from nodeagent_plugins.resource_managers.checkpoint import Checkpoint
from nodeagent_plugins.resource_managers.checksum import of_cpus
from nodeagent_plugins.volumes.flex.records import Record, Records

LOSSES = 20
"""Losses of power per test; each loses the content of an unsynced file with a probability of one half."""


@pytest.fixture
def lose_power(tmp_path: Path) -> Iterator[Callable[[], None]]:
    disk = SimulatedDisk("power loss", tmp_path)

    def lose() -> None:
        for _ in range(LOSSES):
            disk.lose_power()

    with disk.mounted():
        yield lose


def test_cpu_assignments_survive(tmp_path, lose_power):
    checkpoint = Checkpoint(tmp_path / "cpu_manager_state", "static", of_cpus)
    checkpoint.write({"defaultCpuSet": "0-3"})
    checkpoint.write({"defaultCpuSet": "0-1"})

    lose_power()

    assert checkpoint.read() == {"policyName": "static", "defaultCpuSet": "0-1"}


async def test_user_namespaces_of_pods_survive(tmp_path, lose_power):
    pool, pod = IdPool(65536, 4 * 65536, 65536), make_pod("web", uid="web", host_users=False)
    assigned = await PodUserNamespaces(tmp_path, pool).of(pod)

    lose_power()

    assert assigned is not None
    assert await PodUserNamespaces(tmp_path, pool).of(pod) == assigned


def test_records_of_flex_volumes_survive(tmp_path, lose_power):
    volume, record = tmp_path / "uid/volumes/acme~disk/data", Record("acme/disk", volume="data", attached_here=True)
    Records(tmp_path, "flex").write(volume, record)

    lose_power()

    assert Records(tmp_path, "flex").read(volume) == record


def test_resource_claims_survive(tmp_path, lose_power):
    checkpoint = ClaimCheckpoint(tmp_path, "boot")
    text = checkpoint.encode([])
    checkpoint.write(text)

    lose_power()

    assert checkpoint.path.read_text() == text


def test_image_pins_survive(tmp_path, lose_power):
    write_pins(tmp_path, ["docker.io/library/web:1"])

    lose_power()

    assert read_pins(tmp_path) == {"docker.io/library/web:1"}
