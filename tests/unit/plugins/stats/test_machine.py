"""Tests for the statistics of the host."""

from __future__ import annotations

import os

import pytest

from nodeagent.contracts.stats import InterfaceStats
from nodeagent_plugins.stats.machine import Machine, filesystem, parse_interfaces

NANOSECONDS_PER_TICK = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


def test_max_pids_is_the_lower_of_two_limits(fake):
    assert (fake.machine.max_pids(), fake.machine.current_pids()) == (30000, 345)


def test_boot_time(fake):
    assert fake.machine.boot_time() == 1_700_000_000 * 1_000_000_000


def test_interfaces_list_the_default_one_first_and_no_virtual_ones(fake):
    fake.interfaces(9, ens3=(1, 2), lo=(5, 5), veth12=(3, 3), eth0=(7, 8))

    assert fake.machine.interfaces(9) == [InterfaceStats("eth0", 7, 2, 8, 3), InterfaceStats("ens3", 1, 2, 2, 3)]
    assert parse_interfaces(b"") == []


def test_values_of_an_empty_host_are_unknown(tmp_path):
    machine = Machine(tmp_path)

    assert (machine.max_pids(), machine.current_pids(), machine.boot_time(), machine.interfaces()) == (
        None,
        None,
        0,
        [],
    )
    assert (machine.cpu_nanoseconds(), machine.memory_capacity(), machine.swap()) == (None, 0, (0, 0))


def test_missing_directory_has_the_file_system_of_its_parent(tmp_path):
    found, above = filesystem(tmp_path / "not" / "yet", 5), filesystem(tmp_path, 5)

    assert (found.time, found.capacity_bytes) == (5, above.capacity_bytes)


@pytest.mark.parametrize(
    ("file", "text", "expected"),
    [
        ("proc/stat", "cpu  1 0 0 0 0 0 0", 1),
        ("proc/stat", "cpu  1 0 0 0 0 0", None),
        ("proc/stat", "intr 1 0 0 0 0 0 0", None),
        ("proc/loadavg", "0.1 0.2 0.3 2/345", 345),
        ("proc/loadavg", "0.1 0.2 0.3", None),
    ],
)
def test_short_files_of_the_kernel_have_no_values(fake, file, text, expected):
    fake.put(file, f"{text}\n")

    machine = fake.machine
    found = machine.cpu_nanoseconds() if file == "proc/stat" else machine.current_pids()

    assert found == (expected * NANOSECONDS_PER_TICK if file == "proc/stat" and expected else expected)


@pytest.mark.parametrize(("count", "found"), [(12, 1), (11, 0)])
def test_interface_needs_all_counters(count, found):
    text = "Inter-|\n face |\n" + "eth0: " + " ".join("1" * count)

    assert len(parse_interfaces(text.encode())) == found
