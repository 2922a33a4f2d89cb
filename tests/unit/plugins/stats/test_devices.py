"""Tests for the counters of block devices with mounted file systems."""

import pytest

from nodeagent_plugins.stats.devices import DeviceCounts, mounted_devices, open_file_limit
from nodeagent_plugins.stats.machine import Machine


@pytest.fixture
def host(tmp_path):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/7").mkdir()
    (tmp_path / "data disk").mkdir()
    return tmp_path


def test_devices_are_those_of_mounts_with_their_counters(host):
    mounts = [
        "1 0 8:1 / / rw - ext4 /dev/sda1 rw",
        "2 1 8:1 / /again rw - ext4 /dev/sda1 rw",
        "3 1 8:2 / /data\\040disk rw - ext4 /dev/sdb rw",
        "5 1 0:5 / /proc rw - proc proc rw",
        "6 1 8:4 / - ext4 /dev/sdd rw",
        "7 1 8:4 / / rw - ext4",
        "8 1 8:5 / / - ext4 /dev/sde",
        "",
    ]
    (host / "proc/self/mountinfo").write_text("\n".join(mounts))
    numbers = "8 1 sda1 " + " ".join(map(str, range(1000, 12000, 1000)))
    (host / "proc/diskstats").write_text(f"{numbers}\n   8 2 sdb 1 2 3\n{numbers.replace('8 1 sda1', '8 5 sde')} 9 9\n")

    found = {device.path: device for device in mounted_devices(Machine(host), 0)}

    assert list(found) == ["/dev/sda1", "/dev/sdb", "/dev/sde"]
    counts = DeviceCounts(1000, 2000, 3000, 4.0, 5000, 6000, 7000, 8.0, 9000, 10.0, 11.0)
    assert found["/dev/sda1"].counts == found["/dev/sde"].counts == counts
    assert found["/dev/sdb"].counts is None
    assert found["/dev/sdb"].limit_bytes > 0
    assert mounted_devices(Machine(host / "none"), 0) == []


def test_limit_of_open_files_is_the_soft_one(host):
    head = "Limit                     Soft Limit           Hard Limit           Units\n"
    for text, expected in [
        (f"{head}Max open files            1024                 4096                 files\n", 1024),
        (f"{head}Max open files            unlimited            unlimited            files\n", -1),
        (head, None),
    ]:
        (host / "proc/7/limits").write_text(text)
        assert open_file_limit(Machine(host), 7) == expected
    assert open_file_limit(Machine(host), 8) is None
