"""What every pod source does."""

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
    """Fixtures to provide: ``source``, working with the fixture ``clock``, and ``set_pods``."""

    @pytest.fixture
    async def clock(self) -> FakeClock:
        """The clock of the source."""
        return FakeClock()

    @pytest.fixture
    async def source(self) -> PodSource:
        """The implementation; it wants no pods yet."""
        raise NotImplementedError

    @pytest.fixture
    async def set_pods(self) -> SetPods:
        """Return a function that makes pods of these names the wanted ones, one container each."""
        raise NotImplementedError

    @pytest.fixture
    async def published(self, source: PodSource, clock: FakeClock) -> AsyncIterator[list[list[Pod]]]:
        """The sets that the running source has published so far."""
        sets: list[list[Pod]] = []
        task = asyncio.create_task(_run(source, sets))
        yield sets
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    def test_has_a_name(self, source: PodSource) -> None:
        assert source.name

    async def test_an_empty_set_counts(self, published: list[list[Pod]], clock: FakeClock) -> None:
        await clock.advance(_STEP_SECONDS)
        assert published == [[]]

    async def test_each_change_is_published_as_a_whole_set(
        self, published: list[list[Pod]], clock: FakeClock, set_pods: SetPods
    ) -> None:
        for wanted in (["a"], ["a", "b"], ["b"], []):
            await set_pods(wanted)
            await clock.advance(_STEP_SECONDS)
            assert [pod.name.partition("-")[0] for pod in published[-1]] == wanted

    async def test_nothing_is_published_while_nothing_changes(
        self, published: list[list[Pod]], clock: FakeClock, set_pods: SetPods
    ) -> None:
        await set_pods(["a"])
        await clock.advance(_STEP_SECONDS)
        before = len(published)
        await clock.advance(10 * _STEP_SECONDS)
        assert len(published) == before

    async def test_pods_are_complete(self, published: list[list[Pod]], clock: FakeClock, set_pods: SetPods) -> None:
        await set_pods(["a"])
        await clock.advance(_STEP_SECONDS)
        (pod,) = published[-1]
        assert pod.uid and pod.namespace and pod.spec.node_name
        assert pod.spec.containers[0].image_pull_policy


class FalliblePodSourceContract(PodSourceContract):
    """For sources whose origin can fail; one more fixture to provide: ``break_source``."""

    @pytest.fixture
    async def break_source(self) -> Callable[[], Awaitable[None]]:
        """Return a function that makes what the source reads unusable, until pods are set again."""
        raise NotImplementedError

    async def test_a_fault_leaves_the_pods_and_is_survived(
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
