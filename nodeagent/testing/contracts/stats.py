"""Contract tests for stats providers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import pytest

from nodeagent.contracts.stats import CpuStats, FilesystemStats, StatsProvider


class StatsProviderContract:
    """Contract of :class:`StatsProvider`. Override the fixtures ``stats`` and ``running``."""

    @pytest.fixture
    async def stats(self) -> AsyncIterator[StatsProvider]:
        """The implementation to test."""
        raise NotImplementedError
        yield

    @pytest.fixture
    def running(self) -> Sequence[str]:
        """UIDs of the pods with a running container."""
        return ()

    async def test_fresh_node_stats_are_not_older_than_cached_ones(self, stats: StatsProvider) -> None:
        before, after = await stats.node(), await stats.node(fresh=True)
        assert after.start_time == before.start_time
        assert _time(after.cpu) >= _time(before.cpu)
        assert _time(after.filesystem) >= _time(before.filesystem)

    async def test_available_bytes_do_not_exceed_the_capacity(self, stats: StatsProvider) -> None:
        node = await stats.node()
        for system in filter(None, (node.filesystem, node.image_filesystem, node.container_filesystem)):
            if system.capacity_bytes is not None:
                assert 0 <= (system.available_bytes or 0) <= system.capacity_bytes

    async def test_each_running_pod_is_reported_once(self, stats: StatsProvider, running: Sequence[str]) -> None:
        uids = [pod.uid for pod in await stats.pods(fresh=True)]
        assert sorted(uids) == sorted(running)

    async def test_volumes_are_omitted_on_request(self, stats: StatsProvider) -> None:
        assert not any(pod.volumes for pod in await stats.pods(volumes=False))

    async def test_memory_of_each_running_pod_is_reported(self, stats: StatsProvider, running: Sequence[str]) -> None:
        usage = await stats.memory()
        assert sorted(pod.uid for pod in usage) == sorted(running)

    async def test_measuring_volumes_does_not_change_the_reported_pods(
        self, stats: StatsProvider, running: Sequence[str]
    ) -> None:
        await stats.measure_volumes()
        assert sorted(pod.uid for pod in await stats.pods(fresh=True)) == sorted(running)


def _time(stats: CpuStats | FilesystemStats | None) -> int:
    return stats.time if stats is not None else 0
