"""What the runtime is told about a pod's sandbox. Pure."""

from __future__ import annotations

from nodeagent_plugins.pod_sync.paths import PodPaths
from nodeagent_plugins.pod_sync.records import pod_labels
from nodeagent_plugins.pod_sync.security import sandbox_security

from nodeagent.contracts.runtime import DnsConfig, LinuxResources, PortMapping, SandboxConfig
from nodeagent.model.pod import Container, Pod


def make_sandbox_config(
    pod: Pod,
    attempt: int,
    paths: PodPaths,
    *,
    hostname: str,
    dns: DnsConfig,
    cgroup_parent: str,
    resources: LinuxResources | None,
) -> SandboxConfig:
    """Return the configuration of the sandbox.

    :param hostname: left out for pods in the host's network.
    """
    spec = pod.spec
    context = spec.security_context
    sysctls = {sysctl.name: sysctl.value for sysctl in context.sysctls or ()} if context is not None else {}
    return SandboxConfig(
        name=pod.name,
        uid=pod.uid,
        namespace=pod.namespace,
        attempt=attempt,
        hostname="" if spec.host_network else hostname,
        log_directory=str(paths.logs),
        dns=dns,
        port_mappings=() if spec.host_network else port_mappings(pod),
        labels={**(pod.metadata.labels or {}), **pod_labels(pod)},
        annotations=dict(pod.metadata.annotations or {}),
        cgroup_parent=cgroup_parent,
        sysctls=sysctls,
        security=sandbox_security(pod),
        resources=resources,
    )


def port_mappings(pod: Pod) -> tuple[PortMapping, ...]:
    """Return the ports that the node forwards to the pod; an address and port that repeats counts once."""
    containers: list[Container] = [c for c in pod.spec.init_containers or () if c.restartable_init]
    seen: dict[tuple[str, str, int], PortMapping] = {}
    for container in [*containers, *pod.spec.containers]:
        for port in container.ports or ():
            if port.host_port:
                mapping = PortMapping(port.container_port, port.host_port, port.protocol, port.host_ip)
                seen.setdefault((port.protocol, port.host_ip, port.host_port), mapping)
    return tuple(seen.values())
