"""Contract tests for cgroup managers."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from nodeagent.contracts.cgroups import CgroupManager
from nodeagent.model.pod import Pod
from nodeagent.testing.pods import make_container, make_pod


class CgroupManagerContract:
    """Contract of :class:`CgroupManager`. Override the fixture ``cgroups``."""

    @pytest.fixture
    async def cgroups(self) -> AsyncIterator[CgroupManager]:
        """The implementation to test, without pods."""
        raise NotImplementedError
        yield

    @pytest.fixture
    def pod(self) -> Pod:
        """A pod with limits."""
        limits = {"limits": {"cpu": "500m", "memory": "64Mi"}}
        return make_pod("contract", containers=[make_container(resources=limits)])

    async def test_pod_is_listed_from_creation_to_removal(self, cgroups: CgroupManager, pod: Pod) -> None:
        for _ in range(2):
            await cgroups.ensure_pod(pod)
        assert list(await cgroups.pods()) == [pod.uid]
        assert await cgroups.exists(pod)
        for _ in range(2):
            await cgroups.remove_pod(pod.uid)
        assert list(await cgroups.pods()) == []

    async def test_parent_of_a_pod_is_constant(self, cgroups: CgroupManager, pod: Pod) -> None:
        before = cgroups.parent_of(pod)
        await cgroups.ensure_pod(pod)
        assert cgroups.parent_of(pod) == before
        await cgroups.remove_pod(pod.uid)

    async def test_removing_an_unknown_pod_does_not_raise(self, cgroups: CgroupManager) -> None:
        await cgroups.remove_pod("unknown")

    async def test_resources_are_available_without_a_cgroup(self, cgroups: CgroupManager, pod: Pod) -> None:
        cgroups.container_resources(pod, pod.spec.containers[0])
        cgroups.pod_resources(pod)

    async def test_container_with_exclusive_cpus_has_no_quota(self, cgroups: CgroupManager, pod: Pod) -> None:
        cgroups.exempt_from_quota(lambda uid, name: (uid, name) == (pod.uid, pod.spec.containers[0].name))
        assert cgroups.container_resources(pod, pod.spec.containers[0]).cpu_quota == 0
        assert cgroups.pod_resources(pod).cpu_quota == 0
