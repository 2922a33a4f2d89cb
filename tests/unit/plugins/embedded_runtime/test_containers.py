"""Tests for the lifecycle of containers: preconditions, users, namespaces and the recorded exit."""

import asyncio
import json
import os
from types import SimpleNamespace

import pytest

from nodeagent.base.criproto import api_pb2 as cri
from nodeagent_plugins.embedded_runtime import containers as module
from nodeagent_plugins.embedded_runtime import mounts
from nodeagent_plugins.embedded_runtime.containers import Containers
from nodeagent_plugins.embedded_runtime.errors import AlreadyExists, CallError, FailedPrecondition, InvalidArgument
from nodeagent_plugins.embedded_runtime.host import Host
from nodeagent_plugins.embedded_runtime.images.store import Image
from nodeagent_plugins.embedded_runtime.processes import Process
from nodeagent_plugins.embedded_runtime.records import Container, Records, Sandbox

HOST = Host(frozenset(), remapped=False, cgroup_version=2, oom_score_adj=0)


class Harness:
    """A container runtime with one sandbox."""

    def __init__(self, path, host=HOST):
        self.events, self.records = [], Records(path / "containers", Container, cri.ContainerConfig)
        sandboxes = Records(path / "sandboxes", Sandbox, cri.PodSandboxConfig)
        holder = Process.of(os.getpid())
        self.sandbox = Sandbox("s", cri.PodSandboxConfig(), 1, holder=holder, namespaces=["net", "ipc", "pid"])
        sandboxes.save(self.sandbox)
        runner = SimpleNamespace(name="crun", update=lambda name: ["update", name])
        of_sandboxes = SimpleNamespace(records=sandboxes, user_namespace_problem="")
        self.containers = Containers(self.records, of_sandboxes, None, None, runner, host, self._record, None, None)

    def _record(self, event, container):
        self.events.append((event, container.id))

    def add(self, name="c", *, config=None, **fields):
        container = Container(name, "s", config or cri.ContainerConfig(), "image", "ref", 1)
        for key, value in fields.items():
            setattr(container, key, value)
        self.records.save(container)
        return container


@pytest.fixture
def harness(tmp_path):
    return Harness(tmp_path)


async def test_container_is_started_once_in_a_ready_sandbox(harness):
    for fields in ({"started_at": 1}, {"finished_at": 1}):
        with pytest.raises(FailedPrecondition, match="has already been started"):
            await harness.containers.start(harness.add(**fields))
    harness.sandbox.stopped = True
    with pytest.raises(FailedPrecondition, match="the sandbox of container c is not ready"):
        await harness.containers.start(harness.add())


async def test_failed_start_is_recorded_as_an_exit(harness, monkeypatch):
    async def fail(container):
        raise InvalidArgument("no such user")

    async def nothing(container):
        pass

    monkeypatch.setattr(harness.containers, "_start", fail)
    monkeypatch.setattr(harness.containers, "_delete", nothing)
    container = harness.add()
    with pytest.raises(InvalidArgument):
        await harness.containers.start(container)

    assert (container.exit_code, container.reason, container.message) == (128, "StartError", "no such user")
    assert container.finished_at > 0
    assert harness.events == [(cri.CONTAINER_STOPPED_EVENT, "c")]


async def test_limits_are_updated_until_the_exit(harness, tmp_path, monkeypatch):
    given = []

    async def run(command, attempt, *, given_=given, given="", **_):
        given_.append(json.loads(given))

    monkeypatch.setattr(module.commands, "run", run)
    limits = cri.LinuxContainerResources(cpu_shares=100)
    created, running = harness.add("a"), harness.add("b", started_at=1)
    (harness.records.directory("a") / "config.json").write_text(
        json.dumps({"linux": {"resources": {"cpu": {"quota": 5, "shares": 2}, "memory": {"limit": 7}}}})
    )

    await harness.containers.update(running, limits)
    await harness.containers.update(created, limits)

    assert given == [{"cpu": {"shares": 100}}]
    stored = json.loads((harness.records.directory("a") / "config.json").read_text())["linux"]["resources"]
    assert stored == {"cpu": {"quota": 5, "shares": 100}, "memory": {"limit": 7}}
    assert created.config.linux.resources.cpu_shares == running.config.linux.resources.cpu_shares == 100
    with pytest.raises(FailedPrecondition, match="has exited"):
        await harness.containers.update(harness.add("d", started_at=1, finished_at=2), limits)
    without = Harness(tmp_path / "other", Host(frozenset(), True, 0, 0))
    with pytest.raises(FailedPrecondition, match="requires permission to create cgroups"):
        await without.containers.update(created, limits)


def config(**security):
    context = cri.LinuxContainerSecurityContext(**security)
    return cri.ContainerConfig(linux=cri.LinuxContainerConfig(security_context=context))


def test_user_is_that_of_the_security_context_or_the_image(tmp_path, monkeypatch):
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text("web:x:1000:1001::/srv:/bin/sh\n")
    (tmp_path / "etc/group").write_text("extra:x:2000:web\n")
    image, plain = Image("i", [], config={"User": "web"}), Image("i", [])
    number = cri.Int64Value

    def user(security, image=plain, host=HOST):
        found = Harness(tmp_path, host).containers._user(config(**security), image, tmp_path)
        return found.uid, found.gid, found.groups

    assert user({}) == (0, 0, (0,))
    assert user({}, image) == (1000, 1001, (1001, 2000))
    assert user({"run_as_username": "web"}) == (1000, 1001, (1001, 2000))
    assert user({"run_as_user": number(value=0)}, image) == (0, 0, (0,))
    assert user({"run_as_user": number(value=5), "run_as_username": "web"}) == (5, 0, (0,))
    assert user({"run_as_user": number(value=5), "run_as_group": number(value=6)}) == (5, 6, (6,))
    assert user({"run_as_username": "web", "supplemental_groups": [7]}) == (1000, 1001, (7, 1001, 2000))
    strict = {"run_as_username": "web", "supplemental_groups_policy": cri.Strict}
    assert user(strict) == (1000, 1001, (1001,))
    with pytest.raises(InvalidArgument, match="run_as_group requires run_as_user"):
        user({"run_as_group": number(value=6)})
    monkeypatch.setattr(mounts, "_mapped", lambda kind: [range(1)])
    with pytest.raises(FailedPrecondition, match="user 1000 is not mapped"):
        user({}, image, Host(frozenset(), True, 0, 0))
    assert user({}, image)[0] == 1000


def test_namespaces_are_those_of_the_sandbox_the_target_or_new(harness, tmp_path):
    pid = os.getpid()
    target = harness.add("target", started_at=1, process=Process.of(pid))
    harness.add("exited", started_at=1, finished_at=2, process=Process.of(pid))
    harness.add("unknown", started_at=1)
    harness.add("elsewhere", sandbox_id="other", started_at=1, process=Process.of(pid))

    def namespaces(host=None, **fields):
        privileged = fields.pop("privileged", False)
        made = Harness(tmp_path / "v1", host) if host else harness
        options = cri.NamespaceOption(**fields)
        container = made.add(config=config(namespace_options=options, privileged=privileged))
        return made.containers._namespaces(container, made.sandbox)

    joined = {"mount": "", "network": f"/proc/{pid}/ns/net", "ipc": f"/proc/{pid}/ns/ipc"}
    shared = {**joined, "pid": f"/proc/{pid}/ns/pid"}
    assert namespaces(pid=cri.POD) == {**shared, "cgroup": ""}
    assert namespaces(pid=cri.CONTAINER) == {**joined, "pid": "", "cgroup": ""}
    assert namespaces(pid=cri.NODE) == {**joined, "cgroup": ""}
    assert namespaces(pid=cri.POD, privileged=True) == shared
    assert namespaces(Host(frozenset(), False, 1, 0), pid=cri.POD) == shared
    assert namespaces(pid=cri.TARGET, target_id=target.id)["pid"] == f"/proc/{pid}/ns/pid"
    for name in ("exited", "unknown", "elsewhere"):
        with pytest.raises(FailedPrecondition, match=f"target container {name} is not running in this pod"):
            namespaces(pid=cri.TARGET, target_id=name)


def test_exit_is_read_from_the_file_of_the_shim(harness, monkeypatch):
    def exited(code=None, *, ran_out=False):
        container = harness.add()
        monkeypatch.setattr(module.cgroups, "memory_ran_out", lambda groups: ran_out)
        file = harness.records.directory("c") / "exit.json"
        file.unlink(missing_ok=True)
        if code is not None:
            file.write_text(json.dumps({"exit_code": code, "finished_at": 9}))
        harness.containers._read_exit(container)
        return container.exit_code, container.reason, container.finished_at

    assert exited(0) == (0, "Completed", 9)
    assert exited(1) == (1, "Error", 9)
    assert exited(137) == (137, "Error", 9)
    assert exited(137, ran_out=True) == (137, "OOMKilled", 9)
    assert exited(1, ran_out=True) == (1, "Error", 9)
    assert exited()[:2] == (255, "Unknown")


async def test_log_of_a_container_that_is_not_running_is_not_reopened(harness):
    with pytest.raises(FailedPrecondition, match="container c is not running"):
        await harness.containers.reopen_log(harness.add(started_at=1, finished_at=2))


def test_cgroup_is_below_the_parent_of_the_sandbox(harness, tmp_path):
    container = harness.add()
    assert harness.containers._cgroups_path(container, harness.sandbox) == "/nodeagent-pods/c"
    harness.sandbox.config.linux.cgroup_parent = "/kubepods/pod1/"
    assert harness.containers._cgroups_path(container, harness.sandbox) == "/kubepods/pod1/c"
    without = Harness(tmp_path / "other", Host(frozenset(), True, 0, 0))
    assert without.containers._cgroups_path(container, harness.sandbox) == ""


class Images:
    """Images ``app`` and ``data``; records the layers that are in use."""

    def __init__(self):
        self.known = {"app": Image("sha256:app", ["base", "top"], config={"StopSignal": "SIGUSR1"})}
        self.known["data"] = Image("sha256:data", ["data"])
        self.used = []

    def get(self, name):
        return self.known[name]

    def layer(self, name):
        return f"/layers/{name}"

    def collect(self, in_use):
        self.used.append(sorted(in_use))


class Roots:
    clones_mounts = True

    def __init__(self):
        self.removed, self.restored, self.error = [], [], None

    def remove(self, directory):
        self.removed.append(directory.name)

    def restore(self, directory, layers):
        if self.error is not None:
            raise self.error
        self.restored.append((directory.name, layers))


class FakeProcess:
    """A process that exits when it is ended."""

    pid = 7

    def __init__(self):
        self.ends, self.exited = [], asyncio.Event()

    @property
    def alive(self):
        return not self.exited.is_set()

    async def end(self, *arguments):
        self.ends.append(arguments)
        self.exited.set()

    async def ended(self):
        await self.exited.wait()


@pytest.fixture
def complete(harness, monkeypatch):
    """Return a harness whose containers can be created and removed."""
    containers = harness.containers
    containers._images, containers._roots = harness.images, harness.roots = Images(), Roots()
    harness.commands = []

    async def run(command, attempt, **_):
        harness.commands.append(command)

    containers.runner.delete = lambda name: ["delete", name]
    monkeypatch.setattr(module.commands, "run", run)
    monkeypatch.setattr(containers, "_prepare", lambda container, sandbox, image: harness.records.save(container))
    monkeypatch.setattr(module.cgroups, "memory_ran_out", lambda groups: False)
    return harness


def requested(name="main", attempt=0, **fields):
    metadata = cri.ContainerMetadata(name=name, attempt=attempt)
    return cri.ContainerConfig(metadata=metadata, image=cri.ImageSpec(image="app"), **fields)


async def test_created_container_has_the_layers_and_stop_signal_of_its_images(complete):
    mount = cri.Mount(container_path="/data", image=cri.ImageSpec(image="data"))
    other = cri.Mount(container_path="/host", host_path="/etc")
    container = complete.records.get(
        await complete.containers.create(complete.sandbox, requested(mounts=[mount, other]))
    )

    assert (container.layers, container.volume_layers) == (["base", "top"], ["data"])
    assert (container.stop_signal, container.image_id) == ("SIGUSR1", "sha256:app")
    assert complete.events == [(cri.CONTAINER_CREATED_EVENT, container.id)]
    complete.images.known["app"] = Image("sha256:app", [])
    other = complete.records.get(await complete.containers.create(complete.sandbox, requested("plain")))
    assert (other.stop_signal, other.log_path) == ("SIGTERM", "")
    assert complete.containers.of("s") == [container, other] and complete.containers.of("other") == []


@pytest.mark.parametrize(
    ("directory", "path", "log"), [("/logs", "main/0.log", "/logs/main/0.log"), ("/logs", "", ""), ("", "0.log", "")]
)
async def test_container_has_a_log_if_its_directory_and_path_are_set(complete, directory, path, log):
    complete.sandbox.config.log_directory = directory
    container_id = await complete.containers.create(complete.sandbox, requested(log_path=path))
    assert complete.records.get(container_id).log_path == log


async def test_name_and_attempt_are_used_once_per_sandbox(complete):
    await complete.containers.create(complete.sandbox, requested())
    with pytest.raises(AlreadyExists, match="container main, attempt 0, exists"):
        await complete.containers.create(complete.sandbox, requested())
    second = await complete.containers.create(complete.sandbox, requested(attempt=1))
    await complete.containers.remove(complete.records.get(second))
    await complete.containers.create(complete.sandbox, requested(attempt=1))


async def test_container_requires_a_name_and_a_ready_sandbox(complete):
    with pytest.raises(InvalidArgument, match="missing container name"):
        await complete.containers.create(complete.sandbox, requested(""))
    complete.sandbox.stopped = True
    with pytest.raises(FailedPrecondition, match="sandbox s is not ready"):
        await complete.containers.create(complete.sandbox, requested())
    assert complete.records.all() == [] and complete.events == []


@pytest.mark.parametrize(
    ("error", "raised", "text"),
    [
        (OSError("disk full"), CallError, "failed to create container main: disk full"),
        (InvalidArgument("x"), InvalidArgument, "x"),
    ],
)
async def test_failed_creation_leaves_nothing(complete, monkeypatch, error, raised, text):
    def fail(container, sandbox, image):
        complete.records.save(container)
        raise error

    prepare = complete.containers._prepare
    monkeypatch.setattr(complete.containers, "_prepare", fail)
    with pytest.raises(raised, match=text):
        await complete.containers.create(complete.sandbox, requested())

    assert complete.records.all() == [] and complete.events == [] and len(complete.roots.removed) == 1
    monkeypatch.setattr(complete.containers, "_prepare", prepare)
    await complete.containers.create(complete.sandbox, requested())


@pytest.mark.parametrize(("grace", "ends"), [(5, [(5, 10)]), (0.5, [(0.5, 10)]), (0, [(0,)]), (-1, [(0,)])])
async def test_running_container_gets_its_stop_signal_if_it_has_a_grace_period(complete, grace, ends):
    process = FakeProcess()
    container = complete.add(started_at=1, stop_signal="SIGUSR1")
    container.process = process

    await complete.containers.stop(container, grace)

    assert process.ends == ends
    container.finished_at = 2
    await complete.containers.stop(container, grace)
    await complete.containers.stop(complete.add("unknown", started_at=1), grace)
    assert process.ends == ends


async def test_stop_returns_after_the_exit_was_recorded(complete):
    container = complete.add(started_at=1)
    container.process = container.shim = process = FakeProcess()
    (complete.records.directory("c") / "exit.json").write_text(json.dumps({"exit_code": 3, "finished_at": 9}))
    complete.records.save = lambda container: None
    complete.containers._watch(container)
    await asyncio.sleep(0)
    assert not container.finished_at

    await complete.containers.stop(container, 5)

    assert (container.exit_code, container.finished_at) == (3, 9) and process.ends == [(5, 15)]
    assert complete.events == [(cri.CONTAINER_STOPPED_EVENT, "c")] and complete.commands == [["delete", "c"]]


async def test_container_without_its_shim_is_killed(complete, caplog):
    container = complete.add(started_at=1)
    container.shim, container.process = FakeProcess(), FakeProcess()
    container.shim.exited.set()
    complete.records.save = lambda container: None

    await complete.containers._note_end(container)

    assert container.process.ends == [(0,)] and "Container shim was killed" in caplog.messages
    assert (container.exit_code, container.reason) == (255, "Unknown")
    other = complete.add("d", started_at=1)
    await complete.containers._note_end(other)
    assert other.finished_at > 0


async def test_removed_container_is_stopped_and_its_layers_are_released(complete):
    ids = [await complete.containers.create(complete.sandbox, requested(name)) for name in ("a", "b")]
    container = complete.records.get(ids[0])

    await complete.containers.remove(container)

    assert complete.roots.removed == [ids[0]] and complete.images.used == [["base", "top"]]
    assert complete.events[-1] == (cri.CONTAINER_DELETED_EVENT, ids[0])
    assert [each.id for each in complete.records.all()] == [ids[1]]


async def test_containers_of_an_earlier_process_are_adopted(complete, tmp_path, caplog):
    created = complete.add("created", config=requested(), layers=["base"])
    complete.add("exited", started_at=1, finished_at=2, layers=["base"])
    running = complete.add("running", started_at=1, layers=["base"])
    (tmp_path / "containers/torn").mkdir()

    complete.containers.adopt()

    assert complete.roots.restored == [("created", ["/layers/base"])] and complete.roots.removed == ["torn"]
    with pytest.raises(AlreadyExists, match="exists: created"):
        await complete.containers.create(complete.sandbox, requested())
    assert list(complete.containers._watchers) == [running.id]
    await complete.containers.close()
    complete.roots.error = OSError("no space")
    complete.containers.adopt()
    assert "Failed to restore root file system" in caplog.messages
    await complete.containers.close()
    assert created.state == cri.CONTAINER_CREATED


@pytest.mark.parametrize(("problem", "supported"), [("", True), ("the root is a chroot", False)])
def test_features_of_the_handler_are_those_of_the_host(complete, problem, supported):
    complete.containers._sandboxes.user_namespace_problem = problem
    found = complete.containers.handler_features()
    assert (found.recursive_read_only_mounts, found.user_namespaces) == (True, supported)


def test_usage_is_that_of_the_process(complete, monkeypatch):
    monkeypatch.setattr(module.cgroups, "usage", lambda groups, pid: (groups, pid))
    container = complete.add(started_at=1, cgroups={"": "/g"})
    assert complete.containers.usage(container) == ({"": "/g"}, 0)
    container.process = Process.of(os.getpid())
    assert complete.containers.usage(container) == ({"": "/g"}, os.getpid())
