"""Messages of the pod-resources API. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nodeagent.base.pluginproto import podresources_pb2 as v1
from nodeagent.base.pluginproto import podresources_v1alpha1_pb2 as v1alpha1
from nodeagent.contracts.pod_resources import AssignedClaim, AssignedDevice, AssignedMemory, AssignedResources
from nodeagent.model.pod import Pod
from nodeagent_plugins.pod_resources.inventory import ContainerResources


def pod_message(pod: Pod, containers: Iterable[ContainerResources], *, claims: bool) -> v1.PodResources:
    """Return the resources of a pod.

    :param claims: include claims.
    """
    return v1.PodResources(
        name=pod.name,
        namespace=pod.namespace,
        containers=[_container(each.name, each.resources, claims=claims) for each in containers],
    )


def alpha_pod_message(pod: Pod, containers: Iterable[ContainerResources]) -> v1alpha1.PodResources:
    """Return the devices of a pod in the earlier version of the API."""
    return v1alpha1.PodResources(
        name=pod.name,
        namespace=pod.namespace,
        containers=[
            v1alpha1.ContainerResources(
                name=each.name,
                devices=[
                    v1alpha1.ContainerDevices(resource_name=device.resource, device_ids=[device.device_id])
                    for device in each.resources.devices
                ],
            )
            for each in containers
        ],
    )


def allocatable_message(resources: AssignedResources) -> v1.AllocatableResourcesResponse:
    """Return the resources of the node."""
    return v1.AllocatableResourcesResponse(
        devices=_devices(resources.devices), cpu_ids=resources.cpus, memory=map(_memory, resources.memory)
    )


def _container(name: str, resources: AssignedResources, *, claims: bool) -> v1.ContainerResources:
    return v1.ContainerResources(
        name=name,
        devices=_devices(resources.devices),
        cpu_ids=resources.cpus,
        memory=map(_memory, resources.memory),
        dynamic_resources=map(_claim, resources.claims) if claims else (),
    )


def _devices(devices: Sequence[AssignedDevice]) -> list[v1.ContainerDevices]:
    """Return one message per device and NUMA node, as clients expect."""
    found = []
    for device in devices:
        plain = v1.ContainerDevices(resource_name=device.resource, device_ids=[device.device_id])
        for node in device.numa_nodes:
            aligned = v1.ContainerDevices(topology=_topology([node]))
            aligned.MergeFrom(plain)
            found.append(aligned)
        if not device.numa_nodes:
            found.append(plain)
    return found


def _memory(memory: AssignedMemory) -> v1.ContainerMemory:
    topology = _topology(memory.numa_nodes)
    return v1.ContainerMemory(memory_type=memory.type, size=memory.size_bytes, topology=topology)


def _claim(claim: AssignedClaim) -> v1.DynamicResource:
    return v1.DynamicResource(
        claim_name=claim.name,
        claim_namespace=claim.namespace,
        claim_resources=[
            v1.ClaimResource(
                cdi_devices=[v1.CDIDevice(name=name) for name in device.cdi_devices],
                driver_name=device.driver,
                pool_name=device.pool,
                device_name=device.device,
                share_id=device.share_id,
            )
            for device in claim.devices
        ],
    )


def _topology(nodes: Sequence[int]) -> v1.TopologyInfo:
    return v1.TopologyInfo(nodes=[v1.NUMANode(ID=node) for node in nodes])
