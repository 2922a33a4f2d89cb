"""What everything that brings pods to their wanted state does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from nodeagent.contracts.pods import PodSyncer
from nodeagent.contracts.runtime import ContainerState, RuntimePod
from nodeagent.model.pod import Pod
from nodeagent.testing.pods import make_pod

Observe = Callable[[str], Awaitable[RuntimePod]]
_STEPS = 10


class PodSyncerContract:
    """Fixtures to provide: ``syncer`` and ``observe``."""

    @pytest.fixture
    async def syncer(self) -> AsyncIterator[PodSyncer]:
        """The implementation, on a runtime whose containers run until they are stopped; nothing runs yet."""
        raise NotImplementedError
        yield

    @pytest.fixture
    def observe(self) -> Observe:
        """Return a function that looks at a pod by its UID, as the runtime shows it now."""
        raise NotImplementedError

    @pytest.fixture
    def pod(self) -> Pod:
        """A pod that can run."""
        return make_pod("contract", containers=["one", "two"])

    async def test_a_pod_runs_after_some_steps_and_then_stays(
        self, syncer: PodSyncer, observe: Observe, pod: Pod
    ) -> None:
        running = await started(syncer, observe, pod)
        outcome = await syncer.sync_pod(pod, pod.status, running)
        again = await observe(pod.uid)

        assert outcome.error is None
        assert not outcome.touched
        assert {one.id for one in again.containers} == {one.id for one in running.containers}
        assert [one.id for one in again.sandboxes] == [one.id for one in running.sandboxes]

    async def test_touched_names_what_was_made(self, syncer: PodSyncer, observe: Observe, pod: Pod) -> None:
        touched: set[str] = set()
        for _ in range(_STEPS):
            touched |= (await syncer.sync_pod(pod, pod.status, await observe(pod.uid))).touched
        made = await observe(pod.uid)
        assert {one.id for one in made.containers} | {one.id for one in made.sandboxes} <= touched

    async def test_a_terminating_pod_ends_and_each_step_can_be_repeated(
        self, syncer: PodSyncer, observe: Observe, pod: Pod
    ) -> None:
        await started(syncer, observe, pod)
        for _ in range(_STEPS):
            if not (await observe(pod.uid)).alive:
                break
            await syncer.sync_terminating(pod, await observe(pod.uid), 1)
        ended = await observe(pod.uid)
        assert not ended.alive
        assert (await syncer.sync_terminating(pod, ended, 1)).error is None
        for _ in range(2):
            await syncer.sync_terminated(pod, ended)
        assert {one.name for one in (await observe(pod.uid)).containers} == {"one", "two"}
        for _ in range(2):
            await syncer.remove_pod(pod, await observe(pod.uid))
        gone = await observe(pod.uid)
        assert (list(gone.containers), list(gone.sandboxes)) == ([], [])

    async def test_ending_what_never_ran_is_fine(self, syncer: PodSyncer, observe: Observe, pod: Pod) -> None:
        nothing = await observe(pod.uid)
        assert (await syncer.sync_terminating(pod, nothing, None)).error is None
        await syncer.sync_terminated(pod, nothing)
        await syncer.remove_pod(pod, nothing)

    async def test_removing_orphans_leaves_wanted_pods(self, syncer: PodSyncer, observe: Observe, pod: Pod) -> None:
        before = await started(syncer, observe, pod)
        await syncer.remove_orphans(frozenset({pod.uid}), frozenset({pod.uid}))
        after = await observe(pod.uid)
        assert {one.id for one in after.containers} == {one.id for one in before.containers}


async def started(syncer: PodSyncer, observe: Observe, pod: Pod) -> RuntimePod:
    """Take steps until the pod's containers run and return what is seen then."""
    for _ in range(_STEPS):
        await syncer.sync_pod(pod, pod.status, await observe(pod.uid))
        seen = await observe(pod.uid)
        running = {one.name for one in seen.containers if one.state is ContainerState.RUNNING}
        if running == {container.name for container in pod.spec.containers}:
            return seen
    raise AssertionError(f"not all containers run after {_STEPS} steps: {seen}")
