"""What everything that probes containers does."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from nodeagent.contracts.probes import ProbeKind, Prober, ProbeResult
from nodeagent.contracts.runtime import RuntimePod
from nodeagent.model.pod import Pod
from nodeagent.testing.pods import make_pod


class ProberContract:
    """Fixtures to provide: ``prober``, ``pod`` and ``observed``."""

    @pytest.fixture
    async def prober(self) -> AsyncIterator[Prober]:
        """The implementation; it knows of no pods yet."""
        raise NotImplementedError
        yield

    @pytest.fixture
    def pod(self) -> Pod:
        """A pod whose first container has a readiness probe, and the second none."""
        raise NotImplementedError

    @pytest.fixture
    def observed(self) -> RuntimePod:
        """The pod with both containers running."""
        raise NotImplementedError

    async def test_a_container_without_probe_has_no_result(
        self, prober: Prober, pod: Pod, observed: RuntimePod
    ) -> None:
        prober.add_pod(pod, observed)
        plain = observed.newest(pod.spec.containers[1].name)
        assert plain is not None
        assert [prober.result(plain.id, kind) for kind in ProbeKind] == [None, None, None]
        prober.remove_pod(pod.uid)

    async def test_a_container_is_not_ready_before_its_probe_was(
        self, prober: Prober, pod: Pod, observed: RuntimePod
    ) -> None:
        prober.add_pod(pod, observed)
        probed = observed.newest(pod.spec.containers[0].name)
        assert probed is not None
        assert prober.result(probed.id, ProbeKind.READINESS) is not ProbeResult.SUCCESS
        assert prober.result(probed.id, ProbeKind.LIVENESS) is None
        prober.remove_pod(pod.uid)

    async def test_each_step_can_be_repeated(self, prober: Prober, pod: Pod, observed: RuntimePod) -> None:
        for _ in range(2):
            prober.add_pod(pod, observed)
        for _ in range(2):
            prober.end_liveness(pod.uid)
        for _ in range(2):
            prober.remove_pod(pod.uid)

    async def test_nothing_is_kept_of_a_removed_pod(self, prober: Prober, pod: Pod, observed: RuntimePod) -> None:
        prober.add_pod(pod, observed)
        prober.remove_pod(pod.uid)
        assert [prober.result(container.id, ProbeKind.READINESS) for container in observed.containers] == [None, None]

    async def test_unknown_pods_and_containers_are_fine(self, prober: Prober) -> None:
        never = make_pod("never")
        prober.end_liveness(never.uid)
        prober.remove_pod(never.uid)
        prober.add_pod(never, RuntimePod(never.uid, never.name, never.namespace))
        prober.remove_pod(never.uid)
        assert prober.result("never", ProbeKind.LIVENESS) is None
