"""Resources of pods, collected from all reporters. No I/O."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nodeagent.base.gates import FeatureGates
from nodeagent.base.structs import Struct
from nodeagent.contracts.pod_resources import AssignedResources, ResourceReporter
from nodeagent.contracts.pods import PodDirectory, find_pod
from nodeagent.model.pod import Container, Pod


class ContainerResources(Struct, frozen=True):
    """Resources of one container."""

    name: str
    resources: AssignedResources


class Inventory:
    """Pods and the resources of their containers."""

    def __init__(self, pods: PodDirectory, reporters: Sequence[ResourceReporter], gates: FeatureGates) -> None:
        self._pods, self._reporters = pods, reporters
        self._active_only = gates.enabled("NodeAgentPodResourcesListUseActivePods")

    def listed(self) -> Sequence[Pod]:
        """Return the pods of a list: the active ones, or with the feature gate disabled all that are desired."""
        return self._pods.active() if self._active_only else self._pods.all()

    def all(self) -> Sequence[Pod]:
        """Return all desired pods."""
        return self._pods.all()

    def find(self, namespace: str, name: str) -> Pod | None:
        """Return the active pod of that name."""
        pod = find_pod(self._pods, namespace, name)
        return next((each for each in self._pods.active() if pod is not None and each.uid == pod.uid), None)

    def containers(self, pod: Pod) -> Iterator[ContainerResources]:
        """Yield the resources of sidecars and regular containers; other init containers are not listed."""
        sidecars = [container for container in pod.spec.init_containers or () if container.restartable_init]
        for container in (*sidecars, *pod.spec.containers):
            yield ContainerResources(container.name, self._of(pod, container))

    def allocatable(self) -> AssignedResources:
        """Return the resources of the node that containers can use."""
        return _combined([reporter.allocatable_resources() for reporter in self._reporters])

    def _of(self, pod: Pod, container: Container) -> AssignedResources:
        return _combined([reporter.container_resources(pod, container) for reporter in self._reporters])


def _combined(found: Sequence[AssignedResources]) -> AssignedResources:
    return AssignedResources(
        [device for each in found for device in each.devices],
        [cpu for each in found for cpu in each.cpus],
        [block for each in found for block in each.memory],
        [claim for each in found for claim in each.claims],
    )
