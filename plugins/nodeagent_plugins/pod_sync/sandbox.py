"""Sandbox configuration for the runtime. No I/O."""

from __future__ import annotations

from nodeagent.base.quantity import Quantity
from nodeagent.base.sysctls import normalize_sysctl
from nodeagent.contracts.runtime import DnsConfig, LinuxResources, PortMapping, SandboxConfig, UserNamespace
from nodeagent.errors import NodeAgentError
from nodeagent.model.pod import Container, Pod
from nodeagent_plugins.pod_sync.labels import pod_labels
from nodeagent_plugins.pod_sync.paths import PodPaths
from nodeagent_plugins.pod_sync.security import sandbox_security

DEFAULT_CPU_PERIOD = 100_000
MIN_CPU_QUOTA = 1000
MIN_CPU_SHARES = 2


def make_sandbox_config(
    pod: Pod,
    attempt: int,
    paths: PodPaths,
    *,
    hostname: str,
    dns: DnsConfig,
    cgroup_parent: str,
    resources: LinuxResources | None,
    cpu_period: int = DEFAULT_CPU_PERIOD,
    user_namespace: UserNamespace | None = None,
) -> SandboxConfig:
    """Return the configuration of the sandbox.

    :param hostname: unused for pods in the host network.
    :param cpu_period: period in microseconds for the CPU quota of the pod overhead.
    :param user_namespace: ``None`` uses that of the node.
    :raises NodeAgentError: the pod overhead is invalid.
    """
    spec = pod.spec
    context = spec.security_context
    sysctls = (
        {normalize_sysctl(sysctl.name): sysctl.value for sysctl in context.sysctls or ()} if context is not None else {}
    )
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
        security=sandbox_security(pod, user_namespace),
        overhead=overhead_resources(pod, cpu_period) if spec.overhead else None,
        resources=resources,
    )


def overhead_resources(pod: Pod, cpu_period: int) -> LinuxResources:
    """Return the resource limits of the pod overhead."""
    overhead = pod.spec.overhead or {}
    try:
        milli = Quantity.parse(str(overhead.get("cpu", 0))).milli_value()
        memory = Quantity.parse(str(overhead.get("memory", 0))).value()
    except ValueError as error:
        raise NodeAgentError(f"overhead of {pod.full_name} {error}") from error
    return LinuxResources(
        cpu_period=cpu_period if milli else 0,
        cpu_quota=max(milli * cpu_period // 1000, MIN_CPU_QUOTA) if milli else 0,
        cpu_shares=max(milli * 1024 // 1000, MIN_CPU_SHARES),
        memory_limit_bytes=memory,
    )


def port_mappings(pod: Pod) -> tuple[PortMapping, ...]:
    """Return the ports to forward to the pod; repeated combinations of address and port are included once."""
    containers: list[Container] = [c for c in pod.spec.init_containers or () if c.restartable_init]
    seen: dict[tuple[str, str, int], PortMapping] = {}
    for container in [*containers, *pod.spec.containers]:
        for port in container.ports or ():
            if port.host_port:
                mapping = PortMapping(port.container_port, port.host_port, port.protocol, port.host_ip)
                seen.setdefault((port.protocol, port.host_ip, port.host_port), mapping)
    return tuple(seen.values())
