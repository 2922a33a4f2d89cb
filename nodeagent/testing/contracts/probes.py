"""Contract tests for probers."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from nodeagent.contracts.probes import ProbeKind, Prober, ProbeResult
from nodeagent.contracts.runtime import RuntimePod
from nodeagent.model.pod import Pod
from nodeagent.testing.pods import make_pod


class ProberContract:
    """Contract of :class:`Prober`. Override the fixtures ``prober``, ``pod`` and ``observed``."""

    @pytest.fixture
    async def prober(self) -> AsyncIterator[Prober]:
        """The implementation to test, without pods."""
        raise NotImplementedError
        yield

    @pytest.fixture
    def pod(self) -> Pod:
        """A pod whose first container has a readiness probe; the second has no probe."""
        raise NotImplementedError

    @pytest.fixture
    def observed(self) -> RuntimePod:
        """The observed state of the pod, with both containers running."""
        raise NotImplementedError

    async def test_container_without_probe_has_no_result(self, prober: Prober, pod: Pod, observed: RuntimePod) -> None:
        prober.add_pod(pod, observed)
        plain = observed.newest(pod.spec.containers[1].name)
        assert plain is not None
        assert [prober.result(plain.id, kind) for kind in ProbeKind] == [None, None, None]
        prober.remove_pod(pod.uid)

    async def test_container_is_not_ready_before_its_first_probe(
        self, prober: Prober, pod: Pod, observed: RuntimePod
    ) -> None:
        prober.add_pod(pod, observed)
        probed = observed.newest(pod.spec.containers[0].name)
        assert probed is not None
        assert prober.result(probed.id, ProbeKind.READINESS) is not ProbeResult.SUCCESS
        assert prober.result(probed.id, ProbeKind.LIVENESS) is None
        prober.remove_pod(pod.uid)

    async def test_methods_are_idempotent(self, prober: Prober, pod: Pod, observed: RuntimePod) -> None:
        for _ in range(2):
            prober.add_pod(pod, observed)
        for _ in range(2):
            prober.end_liveness(pod.uid)
        for _ in range(2):
            prober.remove_pod(pod.uid)

    async def test_removed_pod_has_no_results(self, prober: Prober, pod: Pod, observed: RuntimePod) -> None:
        prober.add_pod(pod, observed)
        prober.remove_pod(pod.uid)
        assert [prober.result(container.id, ProbeKind.READINESS) for container in observed.containers] == [None, None]

    async def test_unknown_pods_and_containers_do_not_raise(self, prober: Prober) -> None:
        unknown = make_pod("unknown")
        prober.end_liveness(unknown.uid)
        prober.remove_pod(unknown.uid)
        prober.add_pod(unknown, RuntimePod(unknown.uid, unknown.name, unknown.namespace))
        prober.remove_pod(unknown.uid)
        assert prober.result("unknown", ProbeKind.LIVENESS) is None
