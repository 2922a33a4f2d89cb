"""Tests for the figures of this process in metrics."""

from __future__ import annotations

import contextlib
import resource
import time

from nodeagent.base.process_figures import process_figures


def _values() -> dict[str, float]:
    return {figure.name: figure.value for figure in process_figures()}


def test_open_descriptors_are_counted(tmp_path):
    before = _values()["process_open_fds"]
    with contextlib.ExitStack() as files:
        for number in range(20):
            files.enter_context((tmp_path / f"{number}").open("w"))
        opened = _values()["process_open_fds"] - before

    assert 15 < opened < 25  # Threads of earlier tests may open and close some.


def test_allocated_memory_is_reported():
    before = _values()
    small, large = [object() for _ in range(100_000)], bytearray(8 << 20)
    during = _values()
    assert during["process_allocated_blocks"] - before["process_allocated_blocks"] > len(small) / 2
    assert during["process_heap_allocated_bytes"] - before["process_heap_allocated_bytes"] > len(large) / 2


def test_figures_have_the_units_of_their_names():
    values = _values()
    assert 1 << 20 < values["process_resident_memory_bytes"] <= values["process_virtual_memory_bytes"]
    assert values["process_max_fds"] == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert values["process_cpu_seconds_total"] > 0
    assert time.time() - 86400 < values["process_start_time_seconds"] <= time.time() + 1
    assert [figure.name for figure in process_figures() if figure.kind == "counter"] == ["process_cpu_seconds_total"]
