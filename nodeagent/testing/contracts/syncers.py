"""Contract tests for pod syncers."""

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
    """Contract of :class:`PodSyncer`. Override the fixtures ``syncer`` and ``observe``."""

    @pytest.fixture
    async def syncer(self) -> AsyncIterator[PodSyncer]:
        """The implementation to test, on an empty runtime whose containers run until they are stopped."""
        raise NotImplementedError
        yield

    @pytest.fixture
    def observe(self) -> Observe:
        """Function that returns the current state of a pod in the runtime, by UID."""
        raise NotImplementedError

    @pytest.fixture
    def pod(self) -> Pod:
        """A pod that can be started."""
        return make_pod("contract", containers=["one", "two"])

    async def test_pod_is_started_and_then_not_changed(self, syncer: PodSyncer, observe: Observe, pod: Pod) -> None:
        running = await started(syncer, observe, pod)
        outcome = await syncer.sync_pod(pod, pod.status, running)
        again = await observe(pod.uid)

        assert outcome.error is None
        assert not outcome.touched
        assert {each.id for each in again.containers} == {each.id for each in running.containers}
        assert [each.id for each in again.sandboxes] == [each.id for each in running.sandboxes]

    async def test_touched_contains_created_containers_and_sandboxes(
        self, syncer: PodSyncer, observe: Observe, pod: Pod
    ) -> None:
        touched: set[str] = set()
        for _ in range(_STEPS):
            touched |= (await syncer.sync_pod(pod, pod.status, await observe(pod.uid))).touched
        observed = await observe(pod.uid)
        assert {each.id for each in observed.containers} | {each.id for each in observed.sandboxes} <= touched

    async def test_terminating_and_removing_a_pod_is_idempotent(
        self, syncer: PodSyncer, observe: Observe, pod: Pod
    ) -> None:
        await started(syncer, observe, pod)
        for _ in range(_STEPS):
            if not (await observe(pod.uid)).alive:
                break
            await syncer.sync_terminating(pod, await observe(pod.uid), 1)
        terminated = await observe(pod.uid)
        assert not terminated.alive
        assert (await syncer.sync_terminating(pod, terminated, 1)).error is None
        for _ in range(2):
            await syncer.sync_terminated(pod, terminated)
        assert {each.name for each in (await observe(pod.uid)).containers} == {"one", "two"}
        for _ in range(2):
            await syncer.remove_pod(pod, await observe(pod.uid))
        removed = await observe(pod.uid)
        assert (list(removed.containers), list(removed.sandboxes)) == ([], [])

    async def test_terminating_a_pod_that_never_ran_does_not_fail(
        self, syncer: PodSyncer, observe: Observe, pod: Pod
    ) -> None:
        empty = await observe(pod.uid)
        assert (await syncer.sync_terminating(pod, empty, None)).error is None
        await syncer.sync_terminated(pod, empty)
        await syncer.remove_pod(pod, empty)

    async def test_removing_orphans_does_not_affect_known_pods(
        self, syncer: PodSyncer, observe: Observe, pod: Pod
    ) -> None:
        before = await started(syncer, observe, pod)
        await syncer.remove_orphans(lambda uid: uid == pod.uid)
        after = await observe(pod.uid)
        assert {each.id for each in after.containers} == {each.id for each in before.containers}


async def started(syncer: PodSyncer, observe: Observe, pod: Pod) -> RuntimePod:
    """Sync the pod until all its containers are running, and return its observed state."""
    for _ in range(_STEPS):
        await syncer.sync_pod(pod, pod.status, await observe(pod.uid))
        observed = await observe(pod.uid)
        running = {each.name for each in observed.containers if each.state is ContainerState.RUNNING}
        if running == {container.name for container in pod.spec.containers}:
            return observed
    raise AssertionError(f"not all containers are running after {_STEPS} syncs: {observed}")
