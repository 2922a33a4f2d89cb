"""Contract tests for providers of topology hints and reporters of assigned resources."""

from __future__ import annotations

import pytest

from nodeagent.contracts.pod_resources import AssignedResources, ResourceReporter
from nodeagent.contracts.topology import Hint, HintProvider
from nodeagent.model.pod import Pod
from nodeagent.testing.pods import make_pod


class HintProviderContract:
    """Contract of :class:`HintProvider`. Override the fixtures ``hints`` and ``pod``."""

    @pytest.fixture
    def hints(self) -> HintProvider:
        """The implementation to test, with enough resources for one pod."""
        raise NotImplementedError

    @pytest.fixture
    def pod(self) -> Pod:
        """A pod whose container ``main`` uses the resource."""
        raise NotImplementedError

    def test_resource_is_assigned_according_to_a_hint(self, hints: HintProvider, pod: Pod) -> None:
        (container,) = pod.spec.containers
        offered = hints.container_hints(pod, container)
        assert offered and all(offered.values())
        for each in hints.pod_hints(pod).values():
            assert any(hint.preferred for hint in each)
        chosen = next(hint for each in offered.values() for hint in each if hint.preferred)
        hints.allocate(pod, container, chosen)
        hints.allocate(pod, container, chosen)
        again = hints.container_hints(pod, container)
        assert any(hint == chosen for each in again.values() for hint in each)

    def test_released_resource_can_be_assigned_again(self, hints: HintProvider, pod: Pod) -> None:
        (container,) = pod.spec.containers
        for _ in range(3):
            hints.allocate(pod, container, Hint())
            hints.release(pod.uid)
            hints.release(pod.uid)

    def test_pod_without_the_resource_has_no_hints(self, hints: HintProvider) -> None:
        pod = make_pod("other")
        assert not hints.container_hints(pod, pod.spec.containers[0])
        assert not hints.pod_hints(pod)


class ResourceReporterContract:
    """Contract of :class:`ResourceReporter`. Override the fixtures ``reporter`` and ``pod``."""

    @pytest.fixture
    def reporter(self) -> ResourceReporter:
        """The implementation to test."""
        raise NotImplementedError

    @pytest.fixture
    def pod(self) -> Pod:
        """A pod whose container ``main`` has resources of the reporter."""
        raise NotImplementedError

    def test_name_is_not_empty(self, reporter: ResourceReporter) -> None:
        assert reporter.name

    def test_resources_of_a_container_are_reported(self, reporter: ResourceReporter, pod: Pod) -> None:
        found = reporter.container_resources(pod, pod.spec.containers[0])
        assert found.devices or found.cpus or found.memory or found.claims

    def test_devices_and_cpus_of_containers_are_allocatable(self, reporter: ResourceReporter, pod: Pod) -> None:
        found = reporter.container_resources(pod, pod.spec.containers[0])
        allocatable = reporter.allocatable_resources()
        assert set(found.cpus) <= set(allocatable.cpus)
        assert _names(found) <= _names(allocatable)

    def test_container_without_resources_is_reported_without(self, reporter: ResourceReporter) -> None:
        pod = make_pod("other")
        found = reporter.container_resources(pod, pod.spec.containers[0])
        assert not (found.devices or found.cpus or found.memory or found.claims)


def _names(resources: AssignedResources) -> set[tuple[str, str]]:
    return {(device.resource, device.device_id) for device in resources.devices}
