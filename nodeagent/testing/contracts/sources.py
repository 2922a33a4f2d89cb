"""Contract tests for pod sources."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import pytest

from nodeagent.contracts.pods import PodSource
from nodeagent.model.pod import Pod
from nodeagent.testing.clock import FakeClock

SetPods = Callable[[Sequence[str]], Awaitable[None]]
_STEP_SECONDS = 30.0


class PodSourceContract:
    """Contract of :class:`PodSource`. Override the fixtures ``source``, which uses ``clock``, and ``set_pods``."""

    @pytest.fixture
    async def clock(self) -> FakeClock:
        """The clock of the source."""
        return FakeClock()

    @pytest.fixture
    async def source(self) -> PodSource:
        """The implementation to test, without pods."""
        raise NotImplementedError

    @pytest.fixture
    async def set_pods(self) -> SetPods:
        """Function that replaces the pods of the source with pods of these names, each with one container."""
        raise NotImplementedError

    @pytest.fixture
    async def published(self, source: PodSource, clock: FakeClock) -> AsyncIterator[list[list[Pod]]]:
        """The sets of pods that the running source has published."""
        sets: list[list[Pod]] = []
        await clock.settle()  # From now on, the clock waits for the threads of the source.
        task = asyncio.create_task(_run(source, sets))
        yield sets
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    def test_name_is_not_empty(self, source: PodSource) -> None:
        assert source.name

    async def test_empty_set_is_published(self, published: list[list[Pod]], clock: FakeClock) -> None:
        await clock.advance(_STEP_SECONDS)
        assert published == [[]]

    async def test_complete_set_is_published_on_each_change(
        self, published: list[list[Pod]], clock: FakeClock, set_pods: SetPods
    ) -> None:
        for names in (["a"], ["a", "b"], ["b"], []):
            await set_pods(names)
            await clock.advance(_STEP_SECONDS)
            assert [pod.name.partition("-")[0] for pod in published[-1]] == names

    async def test_unchanged_set_is_not_published_again(
        self, published: list[list[Pod]], clock: FakeClock, set_pods: SetPods
    ) -> None:
        await set_pods(["a"])
        await clock.advance(_STEP_SECONDS)
        before = len(published)
        await clock.advance(10 * _STEP_SECONDS)
        assert len(published) == before

    async def test_pods_have_defaults(self, published: list[list[Pod]], clock: FakeClock, set_pods: SetPods) -> None:
        await set_pods(["a"])
        await clock.advance(_STEP_SECONDS)
        (pod,) = published[-1]
        assert pod.uid and pod.namespace and pod.spec.node_name
        assert pod.spec.containers[0].image_pull_policy


class FalliblePodSourceContract(PodSourceContract):
    """Contract of pod sources whose origin can fail. Override the fixture ``break_source``, too."""

    @pytest.fixture
    async def break_source(self) -> Callable[[], Awaitable[None]]:
        """Function that makes the origin of the pods unusable, until pods are set again."""
        raise NotImplementedError

    async def test_pods_are_kept_during_a_failure_and_updated_after_it(
        self,
        published: list[list[Pod]],
        clock: FakeClock,
        set_pods: SetPods,
        break_source: Callable[[], Awaitable[None]],
    ) -> None:
        await set_pods(["a"])
        await clock.advance(_STEP_SECONDS)
        await break_source()
        await clock.advance(2 * _STEP_SECONDS)
        assert [pod.name.partition("-")[0] for pod in published[-1]] == ["a"]
        await set_pods(["b"])
        await clock.advance(20 * _STEP_SECONDS)
        assert [pod.name.partition("-")[0] for pod in published[-1]] == ["b"]


async def _run(source: PodSource, sets: list[list[Pod]]) -> None:
    await source.run(lambda pods: sets.append(list(pods)))
