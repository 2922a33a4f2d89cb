"""Tests for the conversion of CRI responses."""

from __future__ import annotations

import pytest

from nodeagent.base.criproto import api_pb2 as cri
from nodeagent.contracts.runtime import (
    ContainerInfo,
    ContainerState,
    ContainerStats,
    ContainerUser,
    FilesystemUsage,
    Image,
    ImageMount,
    LinuxResources,
    Mount,
    MountPropagation,
    NamespaceMode,
    RuntimeContainerStatus,
    RuntimeEventType,
    SandboxInfo,
    SandboxStatus,
)
from nodeagent_plugins.cri import responses

META = cri.PodSandboxMetadata(name="web", uid="u1", namespace="default", attempt=1)
MAPS = {"labels": {"l": "1"}, "annotations": {"a": "1"}}


def test_listed_sandbox():
    found = cri.PodSandbox(
        id="s1", metadata=META, state=cri.SANDBOX_READY, created_at=5, runtime_handler="crun", **MAPS
    )

    assert responses.sandbox_info(found) == SandboxInfo(
        "s1", "web", "u1", "default", 1, True, 5, {"l": "1"}, {"a": "1"}, "crun"
    )


def test_sandbox_with_two_addresses():
    network = cri.PodSandboxNetworkStatus(ip="10.0.0.1", additional_ips=[cri.PodIP(ip="fd00::1")])
    found = cri.PodSandboxStatus(
        id="s1", metadata=META, state=cri.SANDBOX_NOTREADY, created_at=5, network=network, runtime_handler="h", **MAPS
    )
    found.linux.namespaces.options.network = cri.NODE

    assert responses.sandbox_status(found) == SandboxStatus(
        "s1",
        "web",
        "u1",
        "default",
        1,
        False,
        5,
        ("10.0.0.1", "fd00::1"),
        NamespaceMode.NODE,
        {"l": "1"},
        {"a": "1"},
        "h",
    )


@pytest.mark.parametrize(("ipv6_first", "ips"), [(False, ("10.0.0.1", "fd00::1")), (True, ("fd00::1", "10.0.0.1"))])
def test_one_address_per_family_and_the_primary_family_first(ipv6_first, ips):
    more = [cri.PodIP(ip=ip) for ip in ("10.0.0.1", "fd00::2", "10.0.0.2")]
    network = cri.PodSandboxNetworkStatus(ip="fd00::1", additional_ips=more)

    found = responses.sandbox_status(cri.PodSandboxStatus(metadata=META, network=network), ipv6_first=ipv6_first)

    assert found.ips == ips


def test_listed_container():
    found = cri.Container(
        id="c1",
        pod_sandbox_id="s1",
        metadata=cri.ContainerMetadata(name="main", attempt=2),
        image=cri.ImageSpec(image="busybox:1"),
        image_ref="sha256:1",
        state=cri.CONTAINER_RUNNING,
        created_at=5,
        **MAPS,
    )

    assert responses.container_info(found) == ContainerInfo(
        "c1", "s1", "main", 2, "busybox:1", "sha256:1", ContainerState.RUNNING, 5, {"l": "1"}, {"a": "1"}
    )


def container_status(**changes: object) -> cri.ContainerStatus:
    mount = cri.Mount(
        container_path="/in", host_path="/out", readonly=True, propagation=cri.PROPAGATION_HOST_TO_CONTAINER
    )
    values = {
        "id": "c1",
        "metadata": cri.ContainerMetadata(name="main", attempt=2),
        "state": cri.CONTAINER_EXITED,
        "created_at": 1,
        "started_at": 2,
        "finished_at": 3,
        "exit_code": 137,
        "image": cri.ImageSpec(image="busybox:1"),
        "image_ref": "sha256:1",
        "reason": "OOMKilled",
        "message": "too much",
        "log_path": "/logs/0.log",
        "mounts": [mount],
        **MAPS,
    }
    return cri.ContainerStatus(**{**values, **changes})


def test_exited_container():
    assert responses.container_status(container_status()) == RuntimeContainerStatus(
        "c1",
        "main",
        2,
        ContainerState.EXITED,
        1,
        2,
        3,
        137,
        "busybox:1",
        "sha256:1",
        "OOMKilled",
        "too much",
        "/logs/0.log",
        {"l": "1"},
        {"a": "1"},
        (Mount("/in", "/out", True, False, MountPropagation.HOST_TO_CONTAINER),),
    )


def test_image_name_from_the_pod_is_preferred():
    image = cri.ImageSpec(image="sha256:1", user_specified_image="busybox:1")

    assert responses.container_status(container_status(image=image)).image == "busybox:1"


def test_unrecognized_state_is_unknown():
    assert responses.container_status(container_status(state=9)).state is ContainerState.UNKNOWN


def test_container_usage():
    found = cri.ContainerStats()
    found.attributes.id, found.attributes.metadata.name = "c1", "main"
    found.attributes.labels["io.kubernetes.pod.uid"] = "u1"
    found.cpu.timestamp, found.cpu.usage_core_nano_seconds.value = 1, 2
    found.memory.working_set_bytes.value, found.memory.usage_bytes.value, found.memory.rss_bytes.value = 3, 4, 5
    found.writable_layer.used_bytes.value, found.writable_layer.inodes_used.value = 6, 7

    assert responses.container_stats(found) == ContainerStats("c1", "main", "u1", 1, 2, 3, 4, 5, 6, 7)


def test_pod_usage_lists_the_default_interface_first():
    found = cri.PodSandboxStats()
    found.attributes.id, found.attributes.metadata.uid = "s1", "u1"
    found.linux.cpu.timestamp, found.linux.cpu.usage_core_nano_seconds.value = 1, 2
    found.linux.network.default_interface.name = "net1"
    found.linux.network.default_interface.rx_bytes.value = 3
    found.linux.network.interfaces.add(name="eth0")
    found.linux.process.process_count.value = 4

    usage = responses.sandbox_stats(found)

    assert (usage.id, usage.pod_uid, usage.timestamp, usage.cpu_usage_core_nanoseconds) == ("s1", "u1", 1, 2)
    assert [(interface.name, interface.rx_bytes) for interface in usage.interfaces] == [("net1", 3), ("eth0", 0)]
    assert (usage.process_count, usage.memory_working_set_bytes) == (4, None)


def test_event_carries_the_pod_status_with_the_latest_container_first():
    found = cri.ContainerEventResponse(
        container_id="c2",
        container_event_type=cri.CONTAINER_STOPPED_EVENT,
        pod_sandbox_status=cri.PodSandboxStatus(id="s1", metadata=META),
        containers_statuses=[container_status(), container_status(id="c2", created_at=9)],
    )

    event = responses.event(found)

    assert (event.type, event.container_id, event.pod_uid) == (RuntimeEventType.STOPPED, "c2", "u1")
    assert [container.id for container in event.pod.containers] == ["c2", "c1"]
    assert [sandbox.id for sandbox in event.pod.sandboxes] == ["s1"]


def test_event_without_pod_status():
    event = responses.event(
        cri.ContainerEventResponse(container_id="c", container_event_type=cri.CONTAINER_DELETED_EVENT)
    )

    assert (event.type, event.pod_uid, event.pod) == (RuntimeEventType.DELETED, "", None)


def test_image_user_root_differs_from_an_unspecified_user():
    found = cri.Image(id="i", repo_tags=["t"], repo_digests=["d"], size=9, username="", pinned=True)

    assert responses.image(found) == Image("i", ("t",), ("d",), 9, None, "", True)
    found.uid.value = 0
    assert responses.image(found).uid == 0


def test_file_system_usage():
    found = cri.FilesystemUsage(timestamp=1, fs_id=cri.FilesystemIdentifier(mountpoint="/x"))
    found.used_bytes.value, found.inodes_used.value = 2, 3

    assert responses.filesystem_usage(found) == FilesystemUsage("/x", 2, 3, 1)


def test_container_status_has_user_image_and_stop_signal():
    user = cri.LinuxContainerUser(uid=1000, gid=2000, supplemental_groups=[2000, 3000])
    found = cri.ContainerStatus(
        id="c1", image_id="sha256:1", user=cri.ContainerUser(linux=user), stop_signal=cri.SIGRTMINPLUS3
    )

    status = responses.container_status(found)

    assert (status.image_id, status.stop_signal) == ("sha256:1", "SIGRTMIN+3")
    assert status.user == ContainerUser(1000, 2000, (2000, 3000))


def test_container_status_of_an_older_runtime_has_no_user():
    status = responses.container_status(cri.ContainerStatus(id="c1"))

    assert (status.user, status.image_id, status.stop_signal) == (None, "", "")


def test_reported_mount_of_an_image():
    image = cri.ImageSpec(image="sha256:1", user_specified_image="busybox:1")
    found = cri.Mount(container_path="/tools", readonly=True, recursive_read_only=True, image=image, image_sub_path="a")

    assert responses.mount(found) == Mount(
        "/tools", "", True, recursive_readonly=True, image=ImageMount("sha256:1", "busybox:1", "a")
    )


def test_container_status_has_the_resources_in_effect():
    linux = cri.LinuxContainerResources(cpu_period=100_000, cpu_quota=50_000, cpu_shares=102, memory_limit_in_bytes=9)

    found = responses.container_status(container_status(resources=cri.ContainerResources(linux=linux)))

    assert found.resources == LinuxResources(100_000, 50_000, 102, 9)
    assert responses.container_status(container_status()).resources is None
