"""Tests for the node capacity."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodeagent.node.status import missing_capacity
from nodeagent.testing.context import make_config, make_context
from nodeagent.testing.plugins import load_plugin
from nodeagent_plugins import node_stats
from nodeagent_plugins.node_stats import MachineSize, capacity_of, measure


def test_sizes_are_reported_as_quantities() -> None:
    size = MachineSize(4, 8 * 2**30, 100 * 2**30, {2 * 2**20: 64 * 2**20, 2**30: 0})

    assert capacity_of(size) == {
        "cpu": "4",
        "memory": "8Gi",
        "ephemeral-storage": "100Gi",
        "hugepages-2Mi": "64Mi",
        "hugepages-1Gi": "0",
    }


def test_size_of_the_host_is_read(tmp_path: Path) -> None:
    pages = tmp_path / "sys/kernel/mm/hugepages/hugepages-2048kB"
    pages.mkdir(parents=True)
    (pages / "nr_hugepages").write_text("3\n")
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemFree: 1 kB\nMemTotal:       2048 kB\n")

    size = measure(tmp_path / "not/there/yet", tmp_path)

    assert (size.memory, size.hugepages) == (2 * 2**20, {2 * 2**20: 6 * 2**20})
    assert size.storage > 0
    assert size.cores > 0


def test_unknown_values_are_omitted(tmp_path: Path) -> None:
    size = measure(tmp_path, tmp_path)

    assert "memory" not in capacity_of(size)


async def test_hook_report_node(tmp_path: Path) -> None:
    manager = load_plugin(node_stats, name="node_stats", context=make_context(tmp_path))

    results = await manager.gather("nodeagent_report_node")

    assert results[0].value.capacity.keys() >= {"cpu", "memory", "ephemeral-storage"}


@pytest.mark.row("config.localStorageCapacityIsolation")
@pytest.mark.parametrize("isolation", [True, False])
async def test_ephemeral_storage_is_reported_with_isolation_only(tmp_path: Path, isolation: bool) -> None:
    context = make_context(tmp_path, config=make_config(local_storage_capacity_isolation=isolation))
    manager = load_plugin(node_stats, name="node_stats", context=context)

    (result,) = await manager.gather("nodeagent_report_node")

    assert ("ephemeral-storage" in result.value.capacity) is isolation
    assert missing_capacity({**result.value.capacity, "pods": "1"}, isolation=isolation) == []
