"""Tests for the volume driver of a simulation."""

from __future__ import annotations

import pytest

from nodeagent.simulation.volume_driver import SimulatedDriver


@pytest.fixture
def driver(tmp_path):
    driver = SimulatedDriver(1, tmp_path, lambda _uid: False)
    for uid, name, handle in (("a", "pv-one", "one"), ("a", "pv-two", "two"), ("b", "pv-one", "one")):
        directory = tmp_path / "pods" / uid / "volumes" / driver.name / name
        directory.mkdir(parents=True)
        (directory / "handle").write_text(handle)
    staging = driver._staging("one")
    staging.mkdir(parents=True)
    (staging / "staged").touch()
    return driver


def test_mounted_volumes_are_those_of_the_pod(driver):
    assert driver.pods() == {"a", "b"}
    assert [sorted(driver.mounted_for(uid)) for uid in "abc"] == [["one", "two"], ["one"], []]
    assert driver.handles() == ["one"]


def test_loss_of_power_removes_mounts_but_no_directories(driver, tmp_path):
    driver.lose_power()

    assert (driver.pods(), driver.handles()) == (set(), [])
    assert (tmp_path / "pods/a/volumes" / driver.name / "pv-two").is_dir()
