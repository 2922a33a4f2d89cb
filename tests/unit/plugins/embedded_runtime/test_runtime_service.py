"""Tests for the selection of sandboxes, containers and stats by the runtime service."""

import os
from types import SimpleNamespace

import pytest

from nodeagent.base.criproto import api_pb2 as cri
from nodeagent_plugins.embedded_runtime import runtime_service
from nodeagent_plugins.embedded_runtime.cgroups import Usage
from nodeagent_plugins.embedded_runtime.errors import FailedPrecondition, NotFound
from nodeagent_plugins.embedded_runtime.network import HostNetwork
from nodeagent_plugins.embedded_runtime.processes import Process
from nodeagent_plugins.embedded_runtime.records import Container, Records, Sandbox
from nodeagent_plugins.embedded_runtime.runtime_service import RuntimeService, read_interfaces

RUNNING, EXITED, CREATED = cri.CONTAINER_RUNNING, cri.CONTAINER_EXITED, cri.CONTAINER_CREATED


class Sandboxes:
    def __init__(self, records):
        self.records, self.actions = records, []

    async def stop(self, sandbox):
        self.actions.append(("stop", sandbox.id))

    async def remove(self, sandbox):
        self.actions.append(("remove", sandbox.id))


class Containers:
    """Containers that use as many processes as the number in their ID."""

    runner = SimpleNamespace(name="crun")
    cdi_directories = ("/etc/cdi",)

    def __init__(self, records):
        self.records, self.actions = records, []

    def of(self, sandbox_id):
        return [container for container in self.records.all() if container.sandbox_id == sandbox_id]

    def handler_features(self):
        return cri.RuntimeHandlerFeatures()

    def usage(self, container):
        return Usage(processes=int(container.id[1]))

    def written(self, container):
        return 0, 0

    async def stop(self, container, grace_seconds):
        self.actions.append(("stop", container.id, grace_seconds))

    async def remove(self, container):
        self.actions.append(("remove", container.id))


class Streaming:
    async def offer(self, kind, request):
        return f"http://localhost/{kind}"


@pytest.fixture
def service(tmp_path):
    """Two sandboxes, the second of which is stopped; of the three containers, the first is running."""
    sandboxes = Records(tmp_path / "sandboxes", Sandbox, cri.PodSandboxConfig)
    containers = Records(tmp_path / "containers", Container, cri.ContainerConfig)
    process = Process.of(os.getpid())
    config = cri.PodSandboxConfig(labels={"app": "web", "tier": "front"})
    sandboxes.save(Sandbox("s1", config, 1, holder=process, namespaces=["net"]))
    sandboxes.save(Sandbox("s2", cri.PodSandboxConfig(labels={"app": "db"}), 1, stopped=True))
    for name, sandbox, times in (("c1", "s1", (5, 0)), ("c2", "s1", (5, 6)), ("c3", "s2", (0, 0))):
        labels = {"app": "web"} if sandbox == "s1" else {}
        record = Container(name, sandbox, cri.ContainerConfig(labels=labels), "image", "ref", 1)
        record.started_at, record.finished_at = times
        record.process = process if name == "c1" else None
        containers.save(record)
    return RuntimeService(Sandboxes(sandboxes), Containers(containers), None, Streaming(), HostNetwork(), None)


async def test_sandboxes_are_listed_by_id_labels_and_state(service):
    ready = cri.PodSandboxStateValue(state=cri.SANDBOX_READY)
    for fields, expected in [
        ({}, ["s1", "s2"]),
        ({"id": "s"}, ["s1", "s2"]),
        ({"id": "s2"}, ["s2"]),
        ({"label_selector": {"app": "web"}}, ["s1"]),
        ({"label_selector": {"app": "web", "tier": "back"}}, []),
        ({"label_selector": {"missing": ""}}, []),
        ({"state": ready}, ["s1"]),
        ({"state": cri.PodSandboxStateValue(state=cri.SANDBOX_NOTREADY)}, ["s2"]),
    ]:
        found = await service.list_pod_sandbox(cri.ListPodSandboxRequest(filter=cri.PodSandboxFilter(**fields)))
        assert [item.id for item in found.items] == expected, fields


async def test_containers_are_listed_by_id_sandbox_labels_and_state(service):
    for fields, expected in [
        ({}, ["c1", "c2", "c3"]),
        ({"id": "c3"}, ["c3"]),
        ({"pod_sandbox_id": "s1"}, ["c1", "c2"]),
        ({"label_selector": {"app": "web"}}, ["c1", "c2"]),
        ({"state": cri.ContainerStateValue(state=RUNNING)}, ["c1"]),
        ({"state": cri.ContainerStateValue(state=EXITED), "pod_sandbox_id": "s1"}, ["c2"]),
        ({"state": cri.ContainerStateValue(state=CREATED)}, ["c3"]),
    ]:
        found = await service.list_containers(cri.ListContainersRequest(filter=cri.ContainerFilter(**fields)))
        assert [item.id for item in found.containers] == expected, fields


async def test_stats_are_those_of_running_containers_and_ready_sandboxes(service, monkeypatch):
    interfaces = {"eth0": (1, 2, 3, 4)}
    monkeypatch.setattr(runtime_service, "read_interfaces", lambda pid: interfaces if pid == os.getpid() else {})
    for fields, expected in [
        ({}, ["c1"]),
        ({"id": "c2"}, []),
        ({"pod_sandbox_id": "s2"}, []),
        ({"label_selector": {"app": "db"}}, []),
        ({"id": "c1", "pod_sandbox_id": "s1", "label_selector": {"app": "web"}}, ["c1"]),
    ]:
        request = cri.ListContainerStatsRequest(filter=cri.ContainerStatsFilter(**fields))
        found = await service.list_container_stats(request)
        assert [item.attributes.id for item in found.stats] == expected, fields
    for fields, expected in [({}, ["s1"]), ({"id": "s2"}, []), ({"label_selector": {"app": "db"}}, [])]:
        request = cri.ListPodSandboxStatsRequest(filter=cri.PodSandboxStatsFilter(**fields))
        found = await service.list_pod_sandbox_stats(request)
        assert [item.attributes.id for item in found.stats] == expected, fields
    stats = (await service.pod_sandbox_stats(cri.PodSandboxStatsRequest(pod_sandbox_id="s1"))).stats
    assert [each.attributes.id for each in stats.linux.containers] == ["c1"]
    assert stats.linux.process.process_count.value == 1
    assert stats.linux.network.default_interface.name == "eth0"
    assert (await service.container_stats(cri.ContainerStatsRequest(container_id="c3"))).stats.attributes.id == "c3"


async def test_sandbox_without_a_network_namespace_has_no_network_stats(service, monkeypatch):
    monkeypatch.setattr(runtime_service, "read_interfaces", lambda pid: {"eth0": (1, 2, 3, 4)})
    service._sandboxes.records.get("s1").namespaces.clear()
    for name in ("s1", "s2"):
        request = cri.PodSandboxStatsRequest(pod_sandbox_id=name)
        assert not (await service.pod_sandbox_stats(request)).stats.linux.network.default_interface.name


async def test_details_are_returned_for_verbose_requests(service):
    async def sandbox(sandbox_id, verbose):
        request = cri.PodSandboxStatusRequest(pod_sandbox_id=sandbox_id, verbose=verbose)
        return await service.pod_sandbox_status(request)

    async def container(container_id, verbose):
        request = cri.ContainerStatusRequest(container_id=container_id, verbose=verbose)
        return dict((await service.container_status(request)).info)

    pid = str(os.getpid())
    assert dict((await sandbox("s1", True)).info) == {"pid": pid, "namespaces": "net"}
    assert dict((await sandbox("s1", False)).info) == dict((await sandbox("s2", True)).info) == {}
    assert [each.id for each in (await sandbox("s1", False)).containers_statuses] == ["c1", "c2"]
    assert await container("c1", True) == {"pid": pid, "runner": "crun"}
    assert await container("c1", False) == await container("c2", True) == {}
    assert (await service.status(cri.StatusRequest())).info == {}
    assert (await service.status(cri.StatusRequest(verbose=True))).info["runner"] == "crun"


async def test_stop_and_removal_of_unknown_objects_succeed(service):
    for number, name in enumerate(("unknown", "s1")):
        await service.stop_pod_sandbox(cri.StopPodSandboxRequest(pod_sandbox_id=name))
        await service.remove_pod_sandbox(cri.RemovePodSandboxRequest(pod_sandbox_id=name))
        assert len(service._sandboxes.actions) == 3 * number
    assert service._sandboxes.actions == [("stop", "s1"), ("stop", "s1"), ("remove", "s1")]
    stopped = [("stop", "c1", 0), ("stop", "c2", 0)]
    assert service._containers.actions == [*stopped, ("remove", "c1"), ("remove", "c2")]
    for name in ("unknown", "c3"):
        await service.stop_container(cri.StopContainerRequest(container_id=name, timeout=7))
        await service.remove_container(cri.RemoveContainerRequest(container_id=name))
    assert service._containers.actions[4:] == [("stop", "c3", 7), ("remove", "c3")]


async def test_streams_require_a_running_container_or_a_ready_sandbox(service):
    assert (await service.exec(cri.ExecRequest(container_id="c1"))).url.endswith("/exec")
    assert (await service.attach(cri.AttachRequest(container_id="c1"))).url.endswith("/attach")
    assert (await service.port_forward(cri.PortForwardRequest(pod_sandbox_id="s1"))).url.endswith("/portforward")
    with pytest.raises(FailedPrecondition, match="container c2 is not running"):
        await service.exec(cri.ExecRequest(container_id="c2"))
    with pytest.raises(FailedPrecondition, match="container c3 is not running"):
        await service.attach(cri.AttachRequest(container_id="c3"))
    with pytest.raises(FailedPrecondition, match="sandbox s2 is not ready"):
        await service.port_forward(cri.PortForwardRequest(pod_sandbox_id="s2"))
    with pytest.raises(NotFound):
        await service.exec(cri.ExecRequest(container_id="c9"))


def test_loopback_interface_is_not_part_of_the_usage():
    assert "lo" not in read_interfaces(os.getpid())
    assert all(len(counts) == 4 for counts in read_interfaces(os.getpid()).values())
    assert read_interfaces(0) == {}
