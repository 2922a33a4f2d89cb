"""Conversion of the agent's types to CRI requests."""

from __future__ import annotations

from typing import cast

from nodeagent.base.criproto import api_pb2 as cri
from nodeagent.contracts.runtime import (
    ContainerConfig,
    ContainerSecurity,
    DnsConfig,
    IdMapping,
    LinuxResources,
    Mount,
    Namespaces,
    ProfileType,
    SandboxConfig,
    SandboxSecurity,
    SecurityProfile,
    SeLinux,
    SupplementalGroupsPolicy,
)
from nodeagent.errors import RuntimeFailure

_PROFILES = {
    ProfileType.RUNTIME_DEFAULT: cri.SecurityProfile.RuntimeDefault,
    ProfileType.UNCONFINED: cri.SecurityProfile.Unconfined,
    ProfileType.LOCALHOST: cri.SecurityProfile.Localhost,
}
_POLICIES = {SupplementalGroupsPolicy.MERGE: cri.Merge, SupplementalGroupsPolicy.STRICT: cri.Strict}


def sandbox_config(config: SandboxConfig) -> cri.PodSandboxConfig:
    """Return *config* as a CRI message."""
    return cri.PodSandboxConfig(
        metadata=cri.PodSandboxMetadata(
            name=config.name, uid=config.uid, namespace=config.namespace, attempt=config.attempt
        ),
        hostname=config.hostname,
        log_directory=config.log_directory,
        dns_config=None if config.dns is None else dns_config(config.dns),
        port_mappings=[
            cri.PortMapping(
                protocol=port.protocol,
                container_port=port.container_port,
                host_port=port.host_port,
                host_ip=port.host_ip,
            )
            for port in config.port_mappings
        ],
        labels=config.labels,
        annotations=config.annotations,
        linux=cri.LinuxPodSandboxConfig(
            cgroup_parent=config.cgroup_parent,
            security_context=sandbox_security(config.security),
            sysctls=config.sysctls,
            overhead=None if config.overhead is None else resources(config.overhead),
            resources=None if config.resources is None else resources(config.resources),
        ),
    )


def container_config(config: ContainerConfig) -> cri.ContainerConfig:
    """Return *config* as a CRI message."""
    return cri.ContainerConfig(
        metadata=cri.ContainerMetadata(name=config.name, attempt=config.attempt),
        image=cri.ImageSpec(image=config.image, user_specified_image=config.user_image),
        command=config.command,
        args=config.args,
        working_dir=config.working_dir,
        envs=[cri.KeyValue(key=key, value=value) for key, value in config.envs],
        mounts=list(map(mount, config.mounts)),
        devices=[
            cri.Device(container_path=device.container_path, host_path=device.host_path, permissions=device.permissions)
            for device in config.devices
        ],
        CDI_devices=[cri.CDIDevice(name=name) for name in config.cdi_devices],
        labels=config.labels,
        annotations=config.annotations,
        log_path=config.log_path,
        stdin=config.stdin,
        stdin_once=config.stdin_once,
        tty=config.tty,
        stop_signal=stop_signal(config.stop_signal),
        linux=cri.LinuxContainerConfig(
            resources=resources(config.resources), security_context=container_security(config.security)
        ),
    )


def stop_signal(name: str) -> cri.Signal:
    """Return the signal with this name in the API; the runtime's default for an empty one.

    :raises RuntimeFailure: CRI does not have the signal.
    """
    try:
        number = cri.Signal.Value(name.replace("+", "PLUS").replace("-", "MINUS")) if name else cri.RUNTIME_DEFAULT
    except ValueError as error:
        raise RuntimeFailure(f'invalid stop signal "{name}"') from error
    return cast("cri.Signal", number)


def mount(requested: Mount) -> cri.Mount:
    image = requested.image
    return cri.Mount(
        container_path=requested.container_path,
        host_path=requested.host_path,
        readonly=requested.readonly,
        selinux_relabel=requested.selinux_relabel,
        propagation=f"PROPAGATION_{requested.propagation.name}",
        uidMappings=map(id_mapping, requested.uids),
        gidMappings=map(id_mapping, requested.gids),
        recursive_read_only=requested.recursive_readonly,
        image=None if image is None else cri.ImageSpec(image=image.image, user_specified_image=image.user_image),
        image_sub_path="" if image is None else image.subpath,
    )


def id_mapping(mapping: IdMapping) -> cri.IDMapping:
    return cri.IDMapping(host_id=mapping.host_id, container_id=mapping.container_id, length=mapping.length)


def dns_config(dns: DnsConfig) -> cri.DNSConfig:
    return cri.DNSConfig(servers=dns.servers, searches=dns.searches, options=dns.options)


def resources(limits: LinuxResources) -> cri.LinuxContainerResources:
    """Return *limits* as a CRI message; zero means unset on both sides."""
    return cri.LinuxContainerResources(
        cpu_period=limits.cpu_period,
        cpu_quota=limits.cpu_quota,
        cpu_shares=limits.cpu_shares,
        memory_limit_in_bytes=limits.memory_limit_bytes,
        oom_score_adj=limits.oom_score_adj,
        cpuset_cpus=limits.cpuset_cpus,
        cpuset_mems=limits.cpuset_mems,
        hugepage_limits=[
            cri.HugepageLimit(page_size=size, limit=limit) for size, limit in limits.hugepage_limits.items()
        ],
        unified=limits.unified,
        memory_swap_limit_in_bytes=limits.memory_swap_limit_bytes,
    )


def sandbox_security(security: SandboxSecurity) -> cri.LinuxSandboxSecurityContext:
    return cri.LinuxSandboxSecurityContext(
        namespace_options=namespaces(security.namespaces),
        selinux_options=selinux(security.selinux),
        run_as_user=_int64(security.run_as_user),
        run_as_group=_int64(security.run_as_group),
        readonly_rootfs=security.readonly_rootfs,
        supplemental_groups=security.supplemental_groups,
        privileged=security.privileged,
        seccomp=profile(security.seccomp),
        supplemental_groups_policy=_POLICIES[security.supplemental_groups_policy],
    )


def container_security(security: ContainerSecurity) -> cri.LinuxContainerSecurityContext:
    return cri.LinuxContainerSecurityContext(
        capabilities=cri.Capability(
            add_capabilities=security.capabilities_add, drop_capabilities=security.capabilities_drop
        ),
        privileged=security.privileged,
        namespace_options=namespaces(security.namespaces),
        selinux_options=selinux(security.selinux),
        run_as_user=_int64(security.run_as_user),
        run_as_group=_int64(security.run_as_group),
        run_as_username=security.run_as_username,
        readonly_rootfs=security.readonly_rootfs,
        supplemental_groups=security.supplemental_groups,
        supplemental_groups_policy=_POLICIES[security.supplemental_groups_policy],
        no_new_privs=security.no_new_privs,
        masked_paths=security.masked_paths,
        readonly_paths=security.readonly_paths,
        seccomp=profile(security.seccomp),
        apparmor=None if security.apparmor is None else profile(security.apparmor),
        # Runtimes of this release read the older text form.
        apparmor_profile="" if security.apparmor is None else apparmor_text(security.apparmor),
    )


def namespaces(modes: Namespaces) -> cri.NamespaceOption:
    user = modes.user
    return cri.NamespaceOption(
        network=modes.network.name,
        pid=modes.pid.name,
        ipc=modes.ipc.name,
        target_id=modes.target_id,
        # Without a mode, later runtimes assume POD.
        userns_options=cri.UserNamespace(mode=cri.NODE)
        if user is None
        else cri.UserNamespace(mode=cri.POD, uids=map(id_mapping, user.uids), gids=map(id_mapping, user.gids)),
    )


def selinux(settings: SeLinux | None) -> cri.SELinuxOption | None:
    if settings is None:
        return None
    return cri.SELinuxOption(user=settings.user, role=settings.role, type=settings.type, level=settings.level)


def profile(chosen: SecurityProfile) -> cri.SecurityProfile:
    return cri.SecurityProfile(profile_type=_PROFILES[chosen.type], localhost_ref=chosen.path)


def apparmor_text(chosen: SecurityProfile) -> str:
    """Return an AppArmor profile in the older text form."""
    if chosen.type is ProfileType.LOCALHOST:
        return f"localhost/{chosen.path}"
    return "unconfined" if chosen.type is ProfileType.UNCONFINED else "runtime/default"


def _int64(value: int | None) -> cri.Int64Value | None:
    return None if value is None else cri.Int64Value(value=value)
