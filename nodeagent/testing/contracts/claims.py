"""Contract tests for drivers of resource claims and claim managers."""

from __future__ import annotations

import pytest

from nodeagent.contracts.claims import ClaimDriver, ClaimManager, ClaimReference
from nodeagent.errors import ClaimError
from nodeagent.model.pod import Pod
from nodeagent.testing.claims import FakeClaimDriver
from nodeagent.testing.pods import make_pod


class ClaimDriverContract:
    """Contract of :class:`ClaimDriver`. Override the fixtures ``driver`` and ``claim``."""

    @pytest.fixture
    def driver(self) -> ClaimDriver:
        """The implementation to test."""
        raise NotImplementedError

    @pytest.fixture
    def claim(self) -> ClaimReference:
        """A claim with a device of the driver."""
        raise NotImplementedError

    async def test_claim_is_prepared_again_with_the_same_devices(
        self, driver: ClaimDriver, claim: ClaimReference
    ) -> None:
        first = await driver.prepare([claim])
        assert not first[claim.uid].error
        assert await driver.prepare([claim]) == first
        await driver.unprepare([claim])

    async def test_claim_is_unprepared_repeatedly(self, driver: ClaimDriver, claim: ClaimReference) -> None:
        await driver.prepare([claim])
        for _ in range(2):
            assert await driver.unprepare([claim]) == {claim.uid: ""}


class ClaimManagerContract:
    """Contract of :class:`ClaimManager`. Override the fixtures ``claims``, ``driver`` and ``pod``."""

    @pytest.fixture
    def claims(self) -> ClaimManager:
        """The implementation to test, which uses ``driver``."""
        raise NotImplementedError

    @pytest.fixture
    def driver(self) -> FakeClaimDriver:
        """The driver of the claim."""
        return FakeClaimDriver()

    @pytest.fixture
    def pod(self) -> Pod:
        """A pod whose first container uses one claim, which is allocated and reserved for it."""
        raise NotImplementedError

    async def test_container_gets_the_devices_of_its_claim(
        self, claims: ClaimManager, driver: FakeClaimDriver, pod: Pod
    ) -> None:
        for _ in range(2):
            await claims.prepare_pod(pod)
        (uid,) = driver.prepared
        assert list(claims.cdi_devices(pod, pod.spec.containers[0])) == [f"example.com/gpu={uid}"]

    async def test_claim_is_unprepared_once(self, claims: ClaimManager, driver: FakeClaimDriver, pod: Pod) -> None:
        await claims.prepare_pod(pod)
        assert claims.is_in_use(pod.uid)
        for _ in range(2):
            await claims.release_pod(pod)
        assert driver.unprepared == driver.prepared
        assert not claims.is_in_use(pod.uid)

    async def test_failing_driver_is_called_again(
        self, claims: ClaimManager, driver: FakeClaimDriver, pod: Pod
    ) -> None:
        driver.failure = "out of order"
        with pytest.raises(ClaimError):
            await claims.prepare_pod(pod)
        with pytest.raises(ClaimError):
            claims.cdi_devices(pod, pod.spec.containers[0])
        driver.failure = ""
        await claims.prepare_pod(pod)
        assert len(driver.prepared) == 1

    async def test_pod_without_claims_is_ready(self, claims: ClaimManager) -> None:
        pod = make_pod("other")
        await claims.prepare_pod(pod)
        assert not claims.cdi_devices(pod, pod.spec.containers[0])
        assert not claims.devices(pod, pod.spec.containers[0])
        assert not claims.health(pod, pod.spec.containers[0])
        await claims.release_pod(pod)
