"""Tests for the conversion to CRI requests."""

from __future__ import annotations

import dataclasses

import pytest

from nodeagent.base.criproto import api_pb2 as cri
from nodeagent.contracts.runtime import (
    ContainerConfig,
    ContainerSecurity,
    Device,
    DnsConfig,
    IdMapping,
    ImageMount,
    LinuxResources,
    Mount,
    MountPropagation,
    NamespaceMode,
    Namespaces,
    PortMapping,
    ProfileType,
    SandboxConfig,
    SandboxSecurity,
    SecurityProfile,
    SeLinux,
    SupplementalGroupsPolicy,
    UserNamespace,
)
from nodeagent.errors import RuntimeFailure
from nodeagent_plugins.cri import requests

RESOURCES = LinuxResources(
    cpu_period=100_000,
    cpu_quota=50_000,
    cpu_shares=512,
    memory_limit_bytes=1 << 30,
    oom_score_adj=-997,
    cpuset_cpus="0-1",
    cpuset_mems="0",
    hugepage_limits={"2MB": 4},
    unified={"memory.high": "1"},
    memory_swap_limit_bytes=2 << 30,
)


def test_all_limits_are_converted():
    made = requests.resources(RESOURCES)

    assert made == cri.LinuxContainerResources(
        cpu_period=100_000,
        cpu_quota=50_000,
        cpu_shares=512,
        memory_limit_in_bytes=1 << 30,
        oom_score_adj=-997,
        cpuset_cpus="0-1",
        cpuset_mems="0",
        hugepage_limits=[cri.HugepageLimit(page_size="2MB", limit=4)],
        unified={"memory.high": "1"},
        memory_swap_limit_in_bytes=2 << 30,
    )


def test_complete_sandbox_is_converted():
    config = SandboxConfig(
        name="web",
        uid="u1",
        namespace="default",
        attempt=2,
        hostname="host",
        log_directory="/logs",
        dns=DnsConfig(("10.0.0.10",), ("svc",), ("ndots:5",)),
        port_mappings=(PortMapping(53, 1053, "UDP", "127.0.0.1"),),
        labels={"app": "web"},
        annotations={"note": "x"},
        cgroup_parent="/kubepods/podu1",
        sysctls={"kernel.shm_rmid_forced": "1"},
        security=SandboxSecurity(
            namespaces=Namespaces(NamespaceMode.NODE, NamespaceMode.POD, NamespaceMode.NODE),
            selinux=SeLinux("u", "r", "t", "l"),
            run_as_user=0,
            run_as_group=5,
            readonly_rootfs=True,
            supplemental_groups=(7,),
            privileged=True,
            seccomp=SecurityProfile(ProfileType.LOCALHOST, "/profile.json"),
        ),
        overhead=LinuxResources(cpu_shares=2),
        resources=RESOURCES,
    )

    made = requests.sandbox_config(config)

    context = made.linux.security_context
    assert dict(made.labels) == {"app": "web"}
    assert dict(made.annotations) == {"note": "x"}
    assert made.metadata == cri.PodSandboxMetadata(name="web", uid="u1", namespace="default", attempt=2)
    assert (made.hostname, made.log_directory, made.linux.cgroup_parent) == ("host", "/logs", "/kubepods/podu1")
    assert made.dns_config == cri.DNSConfig(servers=["10.0.0.10"], searches=["svc"], options=["ndots:5"])
    assert list(made.port_mappings) == [
        cri.PortMapping(protocol=cri.UDP, container_port=53, host_port=1053, host_ip="127.0.0.1")
    ]
    assert dict(made.linux.sysctls) == {"kernel.shm_rmid_forced": "1"}
    assert made.linux.overhead.cpu_shares == 2
    assert made.linux.resources == requests.resources(RESOURCES)
    assert context.namespace_options == cri.NamespaceOption(
        network=cri.NODE, pid=cri.POD, ipc=cri.NODE, userns_options=cri.UserNamespace(mode=cri.NODE)
    )
    assert context.selinux_options == cri.SELinuxOption(user="u", role="r", type="t", level="l")
    assert (context.HasField("run_as_user"), context.run_as_user.value, context.run_as_group.value) == (True, 0, 5)
    assert (context.readonly_rootfs, list(context.supplemental_groups), context.privileged) == (True, [7], True)
    assert context.seccomp == cri.SecurityProfile(
        profile_type=cri.SecurityProfile.Localhost, localhost_ref="/profile.json"
    )


def test_unset_sandbox_fields_are_left_to_the_runtime():
    made = requests.sandbox_config(SandboxConfig(name="p", uid="u", namespace="d"))

    assert not made.HasField("dns_config")
    assert not made.linux.HasField("overhead")
    assert not made.linux.HasField("resources")
    assert not made.linux.security_context.HasField("run_as_user")
    assert not made.linux.security_context.HasField("selinux_options")


def test_complete_container_is_converted():
    config = ContainerConfig(
        name="c",
        attempt=3,
        image="sha256:1",
        user_image="busybox:1.36",
        command=("sh",),
        args=("-c", "true"),
        working_dir="/w",
        envs=(("A", "1"), ("B", "2")),
        mounts=(Mount("/in", "/out", True, True, MountPropagation.BIDIRECTIONAL),),
        devices=(Device("/dev/a", "/dev/b", "r"),),
        cdi_devices=("example.com/gpu=0", "example.com/gpu=1"),
        labels={"l": "1"},
        annotations={"a": "1"},
        log_path="c/3.log",
        stdin=True,
        stdin_once=True,
        tty=True,
        resources=RESOURCES,
    )

    made = requests.container_config(config)

    assert made.metadata == cri.ContainerMetadata(name="c", attempt=3)
    assert made.image == cri.ImageSpec(image="sha256:1", user_specified_image="busybox:1.36")
    assert (list(made.command), list(made.args), made.working_dir) == (["sh"], ["-c", "true"], "/w")
    assert [(env.key, env.value) for env in made.envs] == [("A", "1"), ("B", "2")]
    assert list(made.mounts) == [
        cri.Mount(
            container_path="/in",
            host_path="/out",
            readonly=True,
            selinux_relabel=True,
            propagation=cri.PROPAGATION_BIDIRECTIONAL,
        )
    ]
    assert list(made.devices) == [cri.Device(container_path="/dev/a", host_path="/dev/b", permissions="r")]
    assert [device.name for device in made.CDI_devices] == ["example.com/gpu=0", "example.com/gpu=1"]
    assert (dict(made.labels), dict(made.annotations), made.log_path) == ({"l": "1"}, {"a": "1"}, "c/3.log")
    assert (made.stdin, made.stdin_once, made.tty) == (True, True, True)
    assert made.linux.resources == requests.resources(RESOURCES)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("", cri.RUNTIME_DEFAULT),
        ("SIGUSR1", cri.SIGUSR1),
        ("SIGRTMIN+1", cri.SIGRTMINPLUS1),
        ("SIGRTMAX-2", cri.SIGRTMAXMINUS2),
    ],
)
def test_stop_signal_is_converted(name, expected):
    assert requests.container_config(ContainerConfig("c", 0, "i", stop_signal=name)).stop_signal == expected


def test_unknown_stop_signal_is_rejected():
    with pytest.raises(RuntimeFailure, match='invalid stop signal "SIGNOPE"'):
        requests.stop_signal("SIGNOPE")


def test_container_security_is_converted():
    security = ContainerSecurity(
        capabilities_add=("NET_ADMIN",),
        capabilities_drop=("ALL",),
        privileged=True,
        namespaces=Namespaces(pid=NamespaceMode.TARGET, target_id="c0"),
        selinux=SeLinux(level="s0"),
        run_as_user=1000,
        run_as_group=1001,
        run_as_username="web",
        readonly_rootfs=True,
        supplemental_groups=(7, 8),
        no_new_privs=True,
        masked_paths=("/proc/kcore",),
        readonly_paths=("/proc/sys",),
        seccomp=SecurityProfile(ProfileType.RUNTIME_DEFAULT),
        apparmor=SecurityProfile(ProfileType.LOCALHOST, "web"),
    )

    made = requests.container_security(security)

    assert made == cri.LinuxContainerSecurityContext(
        capabilities=cri.Capability(add_capabilities=["NET_ADMIN"], drop_capabilities=["ALL"]),
        privileged=True,
        namespace_options=cri.NamespaceOption(
            pid=cri.TARGET, target_id="c0", userns_options=cri.UserNamespace(mode=cri.NODE)
        ),
        selinux_options=cri.SELinuxOption(level="s0"),
        run_as_user=cri.Int64Value(value=1000),
        run_as_group=cri.Int64Value(value=1001),
        run_as_username="web",
        readonly_rootfs=True,
        supplemental_groups=[7, 8],
        no_new_privs=True,
        masked_paths=["/proc/kcore"],
        readonly_paths=["/proc/sys"],
        seccomp=cri.SecurityProfile(profile_type=cri.SecurityProfile.RuntimeDefault),
        apparmor=cri.SecurityProfile(profile_type=cri.SecurityProfile.Localhost, localhost_ref="web"),
        apparmor_profile="localhost/web",
    )


@pytest.mark.parametrize(
    ("profile", "text"),
    [(ProfileType.RUNTIME_DEFAULT, "runtime/default"), (ProfileType.UNCONFINED, "unconfined")],
)
def test_apparmor_profile_is_also_sent_in_the_older_text_form(profile, text):
    assert requests.apparmor_text(SecurityProfile(profile)) == text


@pytest.mark.parametrize("kind", [NamespaceMode, MountPropagation])
def test_enum_values_equal_those_of_cri(kind):
    prefix = "PROPAGATION_" if kind is MountPropagation else ""

    assert {prefix + member.name: member.value for member in kind} == dict(getattr(cri, kind.__name__).items())


def test_every_contract_field_is_covered():
    """Fails for a new field of the contract until the tests above cover it."""
    fields = {kind: len(dataclasses.fields(kind)) for kind in (SandboxConfig, ContainerConfig, ContainerSecurity)}

    assert fields == {SandboxConfig: 15, ContainerConfig: 20, ContainerSecurity: 16}


def test_mount_of_an_image_has_reference_and_subpath():
    image = ImageMount("sha256:1", "busybox:1", "bin")

    made = requests.mount(Mount("/tools", "", readonly=True, image=image))

    assert (made.image.image, made.image.user_specified_image, made.image_sub_path) == ("sha256:1", "busybox:1", "bin")
    assert (made.host_path, made.readonly) == ("", True)


def test_mount_has_id_mappings_and_recursive_read_only():
    mapping = IdMapping(65536, 0, 1024)

    made = requests.mount(Mount("/data", "/srv", True, recursive_readonly=True, uids=[mapping], gids=[mapping]))

    expected = cri.IDMapping(host_id=65536, container_id=0, length=1024)
    assert (made.recursive_read_only, list(made.uidMappings), list(made.gidMappings)) == (True, [expected], [expected])
    assert not made.HasField("image")


def test_pod_without_user_namespace_requests_that_of_the_node():
    assert requests.namespaces(Namespaces()).userns_options.mode == cri.NODE


def test_pod_with_user_namespace_has_mappings():
    made = requests.namespaces(Namespaces(user=UserNamespace([IdMapping(1, 2, 3)], [IdMapping(4, 5, 6)])))

    assert made.userns_options == cri.UserNamespace(
        mode=cri.POD,
        uids=[cri.IDMapping(host_id=1, container_id=2, length=3)],
        gids=[cri.IDMapping(host_id=4, container_id=5, length=6)],
    )


@pytest.mark.parametrize("policy", SupplementalGroupsPolicy)
def test_supplemental_groups_policy_is_passed(policy):
    sandbox = requests.sandbox_security(SandboxSecurity(supplemental_groups_policy=policy))
    container = requests.container_security(ContainerSecurity(supplemental_groups_policy=policy))

    assert (sandbox.supplemental_groups_policy, container.supplemental_groups_policy) == (policy, policy)
