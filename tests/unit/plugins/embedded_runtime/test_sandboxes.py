"""Tests for sandboxes: settings, namespaces, reserved names and addresses."""

from __future__ import annotations

import asyncio
import os

import pytest

from nodeagent.base.criproto import api_pb2 as cri
from nodeagent_plugins.embedded_runtime import sandboxes
from nodeagent_plugins.embedded_runtime.errors import AlreadyExists, CallError, FailedPrecondition, InvalidArgument
from nodeagent_plugins.embedded_runtime.processes import Process
from nodeagent_plugins.embedded_runtime.records import Records, Sandbox
from nodeagent_plugins.embedded_runtime.sandboxes import Sandboxes, compute_parameters, resolv_conf

ALL = {"net", "ipc", "uts"}


def test_sysctls_of_pod_namespaces_are_accepted():
    requested = {"net.core.somaxconn": "100", "kernel.shmmax": "1", "fs.mqueue.msg_max": "2"}

    assert compute_parameters(requested, ALL) == ["fs.mqueue.msg_max=2", "kernel.shmmax=1", "net.core.somaxconn=100"]


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("kernel.panic", ALL),
        ("vm.swappiness", ALL),
        ("net.core.somaxconn", {"ipc"}),
        ("kernel.shmmax", {"net"}),
        ("net..core", ALL),
        ("net./../kernel", ALL),
    ],
)
def test_sysctls_outside_of_pod_namespaces_are_rejected(name, kinds):
    with pytest.raises(InvalidArgument, match="kernel parameter"):
        compute_parameters({name: "1"}, kinds)


def test_resolv_conf_contains_the_dns_config_of_the_pod():
    dns = cri.DNSConfig(servers=["10.0.0.1", "10.0.0.2"], searches=["a", "b"], options=["ndots:5"])

    text = resolv_conf(cri.PodSandboxConfig(dns_config=dns))

    assert text == "search a b\nnameserver 10.0.0.1\nnameserver 10.0.0.2\noptions ndots:5\n"


def test_value_of_a_sysctl_sets_no_other_one():
    value = "1+kernel.core_pattern=|/evil\nkernel.panic=1 net.ipv4.ip_forward=1"

    assert compute_parameters({"net.core.somaxconn": value}, ALL) == [f"net.core.somaxconn={value}"]


class Helpers:
    """Fork server whose pause process is this process; records the commands."""

    def __init__(self, pid: int | None = None) -> None:
        self.pid, self.commands = os.getpid() if pid is None else pid, []

    async def run(self, *arguments: str, attempt: str, timeout_seconds: float) -> str:
        self.commands.append(arguments)
        return str(self.pid)


class Network:
    own = True

    def __init__(self) -> None:
        self.attached: list[str] = []
        self.occupied: list[str] = []
        self.fails = False

    async def attach(self, sandbox_id, pid, ports):
        if self.fails:
            raise CallError("no free address")
        self.attached.append(sandbox_id)
        return ["10.0.0.2"]

    async def detach(self, addresses, ports):
        self.attached.clear()

    def occupy(self, addresses):
        self.occupied += addresses


class Harness:
    def __init__(self, path, *, helpers=None) -> None:
        self.records = Records(path / "sandboxes", Sandbox, cri.PodSandboxConfig)
        self.network, self.helpers, self.events = Network(), helpers or Helpers(), []
        self.sandboxes = Sandboxes(self.records, self.network, self._changed, self.helpers)

    def _changed(self, event, sandbox):
        self.events.append(event)


@pytest.fixture
def mounts(monkeypatch):
    """Sandboxes need neither mounts nor root, and their processes stay; the paths of the mounts are returned."""
    made = []

    async def stay(process, grace_seconds):
        pass

    monkeypatch.setattr(sandboxes.Process, "end", stay)
    monkeypatch.setattr(sandboxes.syscalls, "mount", lambda source, target, *_: made.append(target))
    monkeypatch.setattr(sandboxes.os, "chown", lambda path, uid, gid: None)
    monkeypatch.setattr(sandboxes.Sandboxes, "_watch", lambda self, sandbox: None)
    return made


def config(name="web", *, linux=None, **options):
    context = cri.LinuxSandboxSecurityContext(namespace_options=cri.NamespaceOption(**options))
    return cri.PodSandboxConfig(
        metadata=cri.PodSandboxMetadata(name=name, namespace="default", uid="u"),
        hostname="web",
        linux=cri.LinuxPodSandboxConfig(security_context=context, **(linux or {})),
    )


async def test_sandbox_has_the_namespaces_of_its_options(tmp_path, mounts):
    pod, node = cri.POD, cri.NODE
    for number, (options, kinds) in enumerate(
        [
            ({"network": pod, "ipc": pod, "pid": cri.CONTAINER}, "ipc,net,uts"),
            ({"network": pod, "ipc": pod, "pid": pod}, "ipc,net,pid,uts"),
            ({"network": node, "ipc": pod, "pid": cri.CONTAINER}, "ipc"),
            ({"network": pod, "ipc": node, "pid": node}, "net,uts"),
        ]
    ):
        harness = Harness(tmp_path / str(number))
        sandbox = harness.records.get(await harness.sandboxes.run(config(**options), ""))
        assert (harness.helpers.commands[0][2], ",".join(sandbox.namespaces)) == (kinds, kinds)
        assert sandbox.ips == ([] if options["network"] == node else ["10.0.0.2"])
        own_shm = str(harness.records.directory(sandbox.id) / "shm")
        assert (own_shm in mounts) is (options["ipc"] == pod)
        assert harness.sandboxes.files(sandbox)["/dev/shm"] == (own_shm if options["ipc"] == pod else "/dev/shm")
        assert (harness.records.directory(sandbox.id) / "hostname").read_text() == "web\n"
        assert harness.events == [cri.CONTAINER_CREATED_EVENT, cri.CONTAINER_STARTED_EVENT]
    shared = Harness(tmp_path / "shared")
    shared.network.own = False
    await shared.sandboxes.run(config(network=pod, ipc=pod, pid=cri.CONTAINER), "")
    assert shared.helpers.commands[0][2] == "ipc,uts"


async def test_sandbox_that_cannot_be_created_is_rejected_with_the_reason(tmp_path, mounts):
    harness = Harness(tmp_path)
    mapping = cri.IDMapping(host_id=65536, container_id=0, length=65536)
    users = cri.UserNamespace(mode=cri.POD, uids=[mapping], gids=[mapping])
    for wrong, handler, error, text in [
        (config(""), "", InvalidArgument, "requires name, namespace and uid"),
        (config(), "kata", InvalidArgument, 'no runtime handler "kata"'),
        (config(linux={"cgroup_parent": "/kubepods.slice"}), "", FailedPrecondition, "requires cgroup driver systemd"),
        (config(linux={"sysctls": {"kernel.panic": "1"}}), "", InvalidArgument, "does not belong to a namespace"),
        (config(userns_options=users), "", FailedPrecondition, "not supported: not determined yet"),
    ]:
        with pytest.raises(error, match=text):
            await harness.sandboxes.run(wrong, handler)
    harness.network.fails = True
    with pytest.raises(CallError, match="no free address"):
        await harness.sandboxes.run(config(pid=cri.CONTAINER), "")
    assert (harness.records.all(), harness.events) == ([], [])
    exited = Harness(tmp_path / "exited", helpers=Helpers(2**22 + 1))
    with pytest.raises(CallError, match="it exited immediately"):
        await exited.sandboxes.run(config(), "")


async def test_name_of_a_sandbox_is_reserved_until_it_is_removed(tmp_path, mounts):
    harness = Harness(tmp_path)
    sandbox = harness.records.get(await harness.sandboxes.run(config(), ""))
    with pytest.raises(AlreadyExists, match="default/web, attempt 0, exists"):
        await harness.sandboxes.run(config(), "")
    for _ in range(2):
        await harness.sandboxes.stop(sandbox)
    assert harness.events[2:] == [cri.CONTAINER_STOPPED_EVENT]
    assert harness.network.attached == []
    await harness.sandboxes.remove(sandbox)
    await harness.sandboxes.run(config(), "")


async def test_addresses_of_running_sandboxes_stay_reserved_after_a_restart(tmp_path, mounts):
    process = Process.of(os.getpid())
    before = Harness(tmp_path)
    for name, fields in [
        ("a", {"namespaces": ["net"], "ips": ["10.0.0.2"]}),
        ("b", {"namespaces": ["net"], "ips": ["10.0.0.3"], "stopped": True}),
        ("c", {"namespaces": ["ipc"], "ips": ["192.0.2.1"]}),
    ]:
        before.records.save(Sandbox(name, config(name), 1, holder=process, **fields))
    (tmp_path / "sandboxes/torn").mkdir()

    after = Harness(tmp_path)
    after.sandboxes.adopt()

    assert after.network.occupied == ["10.0.0.2"]
    assert not (tmp_path / "sandboxes/torn").exists()
    with pytest.raises(AlreadyExists):
        await after.sandboxes.run(config("a"), "")


async def test_stopped_sandbox_has_neither_process_nor_address(tmp_path, mounts, monkeypatch):
    ended, unmounted = [], []

    async def end(process, grace_seconds):
        ended.append((process.pid, grace_seconds))

    monkeypatch.setattr(sandboxes.Process, "end", end)
    harness = Harness(tmp_path)
    sandbox = harness.records.get(await harness.sandboxes.run(config(), ""))
    monkeypatch.setattr(harness.sandboxes, "_unmount", unmounted.append)

    for _ in range(2):
        await harness.sandboxes.stop(sandbox)

    assert ended == [(os.getpid(), 0)] and unmounted == [sandbox.id] and harness.network.attached == []
    assert sandbox.stopped and harness.events[2:] == [cri.CONTAINER_STOPPED_EVENT]
    await harness.sandboxes.remove(sandbox)
    assert harness.records.all() == [] and harness.events[3:] == [cri.CONTAINER_DELETED_EVENT]
    await harness.sandboxes.run(config(), "")


async def test_exit_of_the_pause_process_is_reported_unless_stopped(tmp_path, caplog):
    class Holder:
        pid, alive = 7, True

        def __init__(self):
            self.exited = asyncio.Event()

        async def ended(self):
            await self.exited.wait()

        async def end(self, grace_seconds):
            self.exited.set()

    harness = Harness(tmp_path)
    made = {name: Sandbox(name, config(name), 1) for name in ("exits", "stops", "stopped", "without")}
    for name in ("exits", "stops", "stopped"):
        made[name].holder = Holder()
    made["stopped"].stopped = True
    for sandbox in made.values():
        harness.sandboxes._watch(sandbox)
    await asyncio.sleep(0)
    assert sorted(harness.sandboxes._watchers) == ["exits", "stops"]

    harness.records.save = lambda sandbox: None
    await harness.sandboxes.stop(made["stops"])
    made["exits"].holder.exited.set()
    while harness.sandboxes._watchers:
        await asyncio.sleep(0)

    assert caplog.messages == ["Pause process exited"]
    assert harness.events == [cri.CONTAINER_STOPPED_EVENT] * 2


@pytest.mark.parametrize(
    ("dns", "text"),
    [
        ({"servers": ["10.0.0.1"]}, "nameserver 10.0.0.1\n"),
        ({"searches": ["a"]}, "search a\n"),
        ({"options": ["rotate"]}, "options rotate\n"),
    ],
)
def test_resolv_conf_omits_unset_settings(dns, text):
    assert resolv_conf(cri.PodSandboxConfig(dns_config=cri.DNSConfig(**dns))) == text


def test_resolv_conf_without_a_dns_config_is_that_of_the_node(tmp_path, monkeypatch):
    monkeypatch.setattr(sandboxes, "Path", lambda path: tmp_path / path.lstrip("/"))
    assert resolv_conf(cri.PodSandboxConfig()) == ""
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/resolv.conf").write_text("nameserver 192.0.2.1\n")
    assert resolv_conf(cri.PodSandboxConfig()) == "nameserver 192.0.2.1\n"
