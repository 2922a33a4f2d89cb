"""Tests for the claims in the pod-resources API."""

from __future__ import annotations

import pytest

from nodeagent.contracts.pod_resources import AssignedClaim, AssignedResources, ClaimedDevice
from nodeagent.testing.contracts import ResourceReporterContract
from nodeagent_plugins.claims.reporter import ClaimReporter
from tests.unit.plugins.claims.conftest import GPU, add_claim, claim_pod


class TestContract(ResourceReporterContract):
    @pytest.fixture
    def pod(self):
        return claim_pod()

    @pytest.fixture
    async def reporter(self, manager, api, pod):
        add_claim(api, pod.uid)
        await manager.prepare_pod(pod)
        return ClaimReporter(manager)


async def test_prepared_devices_are_reported(manager, api):
    reporter, pod = ClaimReporter(manager), claim_pod()
    container = pod.spec.containers[0]
    assert reporter.container_resources(pod, container) == AssignedResources()
    add_claim(api, "uid-web")

    await manager.prepare_pod(pod)

    device = ClaimedDevice(GPU, "node-1", "gpu-0", ("example.com/gpu=c-1",))
    expected = AssignedResources(claims=(AssignedClaim("shared", "default", (device,)),))
    assert reporter.container_resources(pod, container) == expected
