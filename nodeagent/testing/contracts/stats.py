"""What everything that measures use does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import pytest

from nodeagent.contracts.stats import CpuStats, FilesystemStats, StatsProvider


class StatsProviderContract:
    """Fixtures to provide: ``stats``, and ``running``, the UIDs of the pods that it has to find."""

    @pytest.fixture
    async def stats(self) -> AsyncIterator[StatsProvider]:
        """The implementation."""
        raise NotImplementedError
        yield

    @pytest.fixture
    def running(self) -> Sequence[str]:
        """UIDs of pods that have a running container."""
        return ()

    async def test_a_fresh_measure_of_the_node_is_never_older_than_one_before(self, stats: StatsProvider) -> None:
        before, after = await stats.node(), await stats.node(fresh=True)
        assert after.start_time == before.start_time
        assert _time(after.cpu) >= _time(before.cpu)
        assert _time(after.filesystem) >= _time(before.filesystem)

    async def test_a_file_system_holds_no_more_than_its_size(self, stats: StatsProvider) -> None:
        node = await stats.node()
        for system in filter(None, (node.filesystem, node.image_filesystem, node.container_filesystem)):
            if system.capacity_bytes is not None:
                assert 0 <= (system.available_bytes or 0) <= system.capacity_bytes

    async def test_each_running_pod_is_there_once(self, stats: StatsProvider, running: Sequence[str]) -> None:
        found = [pod.uid for pod in await stats.pods(fresh=True)]
        assert sorted(found) == sorted(running)

    async def test_volumes_are_left_out_on_demand(self, stats: StatsProvider) -> None:
        assert not any(pod.volumes for pod in await stats.pods(volumes=False))

    async def test_the_memory_of_each_running_pod_is_told_alone(
        self, stats: StatsProvider, running: Sequence[str]
    ) -> None:
        found = await stats.memory()
        assert sorted(pod.uid for pod in found) == sorted(running)

    async def test_measuring_volumes_changes_which_pods_are_there_as_little(
        self, stats: StatsProvider, running: Sequence[str]
    ) -> None:
        await stats.measure_volumes()
        assert sorted(pod.uid for pod in await stats.pods(fresh=True)) == sorted(running)


def _time(stats: CpuStats | FilesystemStats | None) -> int:
    return stats.time if stats is not None else 0
