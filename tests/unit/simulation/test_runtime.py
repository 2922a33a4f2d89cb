"""Tests for the simulated container runtime."""

from __future__ import annotations

import asyncio

import pytest

from nodeagent.base.criproto import api_pb2 as cri
from nodeagent.base.simulation.clock import SimulatedClock
from nodeagent.base.simulation.loop import SimulatedLoop
from nodeagent.base.simulation.trace import Trace
from nodeagent.contracts.runtime import LABEL_POD_UID
from nodeagent.simulation.image_store import NoSpace
from nodeagent.simulation.runtime import MESSAGE_PATH, SimulatedRuntime
from nodeagent.simulation.runtime_objects import Observer, RuntimeProblem


class Recorder(Observer):
    """Observer that records the ends of containers, and counts startups and changes of the store."""

    def __init__(self):
        self.ends, self.startups, self.changes, self.probes = [], 0, 0, 0

    def ended(self, container, cause):
        self.ends.append((container.name, cause))

    def started_up(self, container):
        self.startups += 1

    def probed(self, container):
        self.probes += 1

    def stored(self):
        self.changes += 1


class Node:
    """A runtime on a simulated loop, and its calls."""

    def __init__(self, loop):
        self.loop = loop
        self.runtime = SimulatedRuntime(1, loop, SimulatedClock(loop), Trace(loop.time))
        self.observer = self.runtime.observer = Recorder()
        self.runtime.add_image("app:1")

    def run(self, coroutine):
        return self.loop.run_until_complete(coroutine)

    def call(self, name, **fields):
        """Return the response to a call, or the problem."""
        response = getattr(cri, f"{name}Response")
        result = self.run(self.runtime.handle(name, getattr(cri, f"{name}Request")(**fields)))
        return result if isinstance(result, RuntimeProblem) else response.FromString(result)

    def sandbox(self, uid="a", attempt=0, **config):
        metadata = cri.PodSandboxMetadata(name=uid, uid=uid, namespace="default", attempt=attempt)
        return self.call("RunPodSandbox", config=cri.PodSandboxConfig(metadata=metadata, **config))

    def create(self, sandbox, name="web", attempt=0, image="app:1", **config):
        metadata = cri.ContainerMetadata(name=name, attempt=attempt)
        config = cri.ContainerConfig(metadata=metadata, image=cri.ImageSpec(image=image), **config)
        return self.call("CreateContainer", pod_sandbox_id=sandbox, config=config)

    def start(self, sandbox, name="web", **options):
        """Start a container that ignores no signal, and return it."""
        container = self.runtime.containers[self.create(sandbox, name, **options).container_id]
        self.call("StartContainer", container_id=container.id)
        container.stop_seconds = 1.0
        return container

    def state(self, container):
        return self.call("ContainerStatus", container_id=container.id).status.state

    def later(self, seconds):
        self.run(asyncio.sleep(seconds))


@pytest.fixture
def node():
    loop = SimulatedLoop(1)
    asyncio.set_event_loop(loop)
    yield Node(loop)
    asyncio.set_event_loop(None)
    loop.close()


@pytest.fixture
def sandbox(node):
    return node.sandbox().pod_sandbox_id


def test_name_and_attempt_of_a_sandbox_are_unique(node, sandbox):
    assert node.sandbox().text == f"failed to reserve sandbox name: it is reserved for {sandbox}"
    assert node.sandbox(attempt=1).pod_sandbox_id and node.sandbox("b").pod_sandbox_id
    node.runtime.network_ready = False
    assert "cni plugin not initialized" in node.sandbox("c").text


def test_sandboxes_and_containers_are_listed_by_pod_newest_first(node, sandbox):
    other = node.sandbox("b").pod_sandbox_id
    first, second, third = node.start(sandbox), node.start(other), node.start(sandbox, "more")

    def sandboxes(**labels):
        request = cri.PodSandboxFilter(label_selector=labels)
        return [item.id for item in node.call("ListPodSandbox", filter=request).items]

    def containers(**labels):
        request = cri.ContainerFilter(label_selector=labels)
        return [item.id for item in node.call("ListContainers", filter=request).containers]

    assert sandboxes() == [other, sandbox] and sandboxes(**{LABEL_POD_UID: "a"}) == [sandbox]
    assert containers() == [third.id, second.id, first.id]
    assert containers(**{LABEL_POD_UID: "a"}) == [third.id, first.id]


@pytest.mark.parametrize(("network", "has_address"), [(cri.POD, True), (cri.NODE, False)])
def test_ready_sandbox_has_an_address_unless_it_uses_the_host_network(node, network, has_address):
    security = cri.LinuxSandboxSecurityContext(namespace_options=cri.NamespaceOption(network=network))
    sandbox = node.sandbox(linux=cri.LinuxPodSandboxConfig(security_context=security)).pod_sandbox_id

    def address():
        return node.call("PodSandboxStatus", pod_sandbox_id=sandbox).status.network.ip

    assert bool(address()) is has_address
    node.call("StopPodSandbox", pod_sandbox_id=sandbox)
    assert address() == ""
    assert node.call("PodSandboxStatus", pod_sandbox_id="x").code == "not found"


def test_misreported_states_are_those_of_running_objects(node, sandbox):
    container = node.start(sandbox)
    container.misreported = node.runtime.sandboxes[sandbox].misreported = True

    assert node.state(container) == cri.CONTAINER_UNKNOWN
    assert node.call("PodSandboxStatus", pod_sandbox_id=sandbox).status.state == cri.SANDBOX_NOTREADY
    node.runtime.report_truly()
    assert node.state(container) == cri.CONTAINER_RUNNING
    container.misreported = True
    node.runtime.exit(container, 3)
    assert node.state(container) == cri.CONTAINER_EXITED


def test_containers_need_a_sandbox_an_image_and_a_free_name(node, sandbox):
    container = node.start(sandbox)
    assert node.create(sandbox).text == f"failed to reserve container name: it is reserved for {container.id}"
    assert node.create(sandbox, "other", image="app:2").text == "image app:2 not found"
    assert node.create(sandbox, attempt=1).container_id and node.create(sandbox, "other").container_id
    assert node.create(node.sandbox("b").pod_sandbox_id).container_id
    node.call("StopPodSandbox", pod_sandbox_id=sandbox)
    assert node.create(sandbox, "late").text == f"sandbox {sandbox} is not running"


def test_container_starts_once_in_a_ready_sandbox(node, sandbox):
    container, created = node.start(sandbox), node.create(sandbox, "late").container_id
    assert "is in state" in node.call("StartContainer", container_id=container.id).text
    node.call("StopPodSandbox", pod_sandbox_id=sandbox)
    assert node.call("StartContainer", container_id=created).text == f"sandbox {sandbox} is not running"
    assert node.call("StartContainer", container_id="x").code == "not found"
    assert not container.outlasted


@pytest.mark.parametrize(("attempt", "code"), [(0, 1), (1, 1), (2, 5), (3, 5)])
def test_arguments_determine_the_end_of_a_container(node, sandbox, attempt, code):
    container = node.start(sandbox, attempt=attempt, args=["exit", "10", "5", "2"])
    node.later(9)
    assert container.running
    node.later(2)
    status = node.call("ContainerStatus", container_id=container.id).status
    assert (status.exit_code, status.reason) == (code, "Error")
    assert status.finished_at - status.started_at == 10 * 10**9


def test_other_arguments_do_not_end_a_container(node, sandbox):
    container, done = node.start(sandbox, args=["sleep", "1"]), node.start(sandbox, "done", args=["exit", "1", "0"])
    node.later(100)
    assert container.running
    assert (done.reason, node.observer.ends) == ("Completed", [("done", "exit")])


@pytest.mark.parametrize(
    ("stop_seconds", "timeout", "seconds", "code", "cause"),
    [
        (2.0, 30, 2, 0, "stopped"),
        (None, 30, 30, 137, "killed"),
        (40.0, 30, 30, 137, "killed"),
        (2.0, 0, 0, 137, "killed"),
        (2.0, -5, 0, 137, "killed"),
    ],
)
def test_container_has_its_grace_period_to_stop(node, sandbox, stop_seconds, timeout, seconds, code, cause):
    container = node.start(sandbox)
    container.stop_seconds, started = stop_seconds, node.loop.time()

    node.call("StopContainer", container_id=container.id, timeout=timeout)

    assert node.loop.time() - started == pytest.approx(seconds, abs=0.01)
    assert (container.exit_code, node.observer.ends) == (code, [("web", cause)])
    node.call("StopContainer", container_id=container.id, timeout=5)
    node.call("StopContainer", container_id="x", timeout=5)
    assert len(node.observer.ends) == 1


def test_second_stop_does_not_send_the_signal_again(node, sandbox):
    container = node.start(sandbox)
    container.stop_seconds = 10.0

    async def stop_twice():
        first = asyncio.create_task(node.runtime.handle("StopContainer", request))
        await asyncio.sleep(5)
        await node.runtime.handle("StopContainer", request)
        await first

    request = cri.StopContainerRequest(container_id=container.id, timeout=30)
    node.run(stop_twice())
    assert container.finished_at - container.started_at == 10 * 10**9
    assert container.signaled_at == container.running_since


def test_stopped_sandbox_ends_only_its_containers(node, sandbox):
    other = node.start(node.sandbox("b").pod_sandbox_id, "other")
    container = node.start(sandbox)
    for _ in range(2):
        node.call("StopPodSandbox", pod_sandbox_id=sandbox)
    node.call("StopPodSandbox", pod_sandbox_id="x")

    assert (container.running, other.running) == (False, True)
    assert node.observer.ends == [("web", "sandbox")]
    node.call("RemovePodSandbox", pod_sandbox_id=sandbox)
    node.call("RemovePodSandbox", pod_sandbox_id=sandbox)
    assert list(node.runtime.containers) == [other.id] and len(node.runtime.sandboxes) == 1


def test_removed_container_is_killed(node, sandbox):
    container, created = node.start(sandbox), node.create(sandbox, "created").container_id
    for each in (container.id, container.id, created):
        node.call("RemoveContainer", container_id=each)
    assert node.observer.ends == [("web", "removed")] and node.runtime.containers == {}


def test_limits_of_existing_containers_are_changed(node, sandbox):
    container = node.start(sandbox)
    fields = {"container_id": container.id, "linux": cri.LinuxContainerResources(cpu_quota=7)}
    node.call("UpdateContainerResources", **fields)
    assert node.call("ContainerStatus", container_id=container.id).status.resources.linux.cpu_quota == 7
    node.runtime.exit(container, 0)
    assert "is in state" in node.call("UpdateContainerResources", **fields).text


def execute(node, container, *command):
    response = node.call("ExecSync", container_id=container.id, cmd=command)
    return response if isinstance(response, RuntimeProblem) else response.exit_code


def test_probes_fail_in_a_broken_container(node, sandbox):
    container = node.start(sandbox)
    assert execute(node, container, "check") == 0
    container.broken = True
    assert execute(node, container, "check") == 1
    assert node.observer.probes == 2
    node.runtime.exit(container, 1)
    assert "is not running" in execute(node, container, "check").text


def test_startup_probe_succeeds_after_some_time(node, sandbox):
    container = node.start(sandbox)
    node.later(4)
    assert execute(node, container, "started", "5") == 1 and not container.started_up
    node.later(1)
    assert [execute(node, container, "started", "5") for _ in range(2)] == [0, 0]
    assert container.started_up and node.observer.startups == 1


def test_hooks_take_time_and_fail_if_the_container_ends(node, sandbox):
    container, started = node.start(sandbox), node.loop.time()
    assert execute(node, container, "start") == 0
    assert 0 < node.loop.time() - started < 3
    node.loop.call_later(0.001, node.runtime.exit, container, 1)
    assert execute(node, container, "stop") == 1


def test_first_request_to_stop_is_recorded(node, sandbox):
    container, other = node.start(sandbox), node.start(sandbox, "other")
    assert container.stopping_since is None
    stop = cri.StopContainerRequest(container_id=container.id)
    hook = cri.ExecSyncRequest(container_id=container.id, cmd=["stop"])
    for name, request in (
        ("StopContainer", cri.StopContainerRequest(container_id="x")),
        ("ExecSync", cri.ExecSyncRequest(container_id="x", cmd=["stop"])),
        ("ExecSync", cri.ExecSyncRequest(container_id=container.id, cmd=["check"])),
    ):
        node.runtime.accept(name, request)
    assert container.stopping_since is None
    node.later(1)
    for _ in range(2):
        node.runtime.accept("StopContainer", stop)
        node.later(1)
        node.runtime.accept("ExecSync", hook)
        node.later(1)
    assert (container.requested_at, container.hook_requested_at) == (1, 2)
    assert container.stopping_since == 1 and other.stopping_since is None


def test_images_are_stored_until_they_are_removed(node, sandbox):
    spec = cri.ImageSpec(image="app:2")
    assert not node.call("ImageStatus", image=spec).HasField("image")
    assert node.call("PullImage", image=spec).image_ref == "app:2"
    assert node.call("ImageStatus", image=spec).image.id == "app:2"
    assert [image.id for image in node.call("ListImages").images] == ["app:1", "app:2"]
    assert node.call("ImageFsInfo").image_filesystems[0].used_bytes.value == 2_000_000
    changes = node.observer.changes
    for _ in range(2):
        node.call("RemoveImage", image=spec)
    assert node.observer.changes == changes + 1 and list(node.runtime.images) == ["app:1"]


def test_only_new_images_need_space(node):
    class Full:
        def reserve(self, name):
            raise NoSpace

        def size(self, name):
            return 1

    node.runtime.image_store = Full()
    node.runtime.add_image("app:1")
    assert "no space left on device" in node.call("PullImage", image=cri.ImageSpec(image="app:2")).text


def test_termination_message_is_lost_with_the_power(node, sandbox, tmp_path):
    def messages(code, end):
        file = tmp_path / f"message-{code}"
        mounts = [
            cri.Mount(container_path="/x", host_path="/y"),
            cri.Mount(container_path=MESSAGE_PATH, host_path=str(file)),
        ]
        container = node.start(sandbox, f"web-{code}", mounts=mounts)
        end(container)
        return file.exists() and file.read_text() == container.message

    assert messages(1, lambda container: node.runtime.exit(container, 1))
    assert not messages(2, lambda container: node.call("StopContainer", container_id=container.id, timeout=0))
    node.runtime.lose_power()
    assert {container.message for container in node.runtime.containers.values()} == {None}
    assert not node.runtime.running() and not node.runtime.sandboxes[sandbox].ready


def test_loss_of_power_ends_all_containers(node, sandbox):
    node.start(sandbox), node.start(sandbox, "exited")
    node.runtime.exit(next(reversed(node.runtime.containers.values())), 0)
    node.runtime.lose_power()
    assert node.observer.ends == [("exited", "exit"), ("web", "power")]


def test_unknown_call_is_unimplemented(node):
    assert node.run(node.runtime.handle("Attach", None)).code == "unimplemented"


@pytest.mark.parametrize("name", ["Version", "*"])
def test_failing_calls_are_those_of_the_name(node, name):
    node.runtime.failing[name] = 1.0
    assert node.call("Version").text == "injected failure"
    assert isinstance(node.call("Status"), RuntimeProblem) is (name == "*")


@pytest.mark.parametrize("name", ["Version", "*"])
def test_hanging_calls_continue_once_they_are_released(node, name):
    async def call():
        task = asyncio.create_task(node.runtime.handle("Version", cri.VersionRequest()))
        await asyncio.sleep(100)
        assert not task.done()
        node.runtime.release()
        return await task

    node.runtime.hanging.add(name)
    assert node.run(call()) and not node.runtime.hanging


def test_stop_that_outlives_its_client_is_recorded(node, sandbox):
    other = node.sandbox("b").pod_sandbox_id
    container = node.create(sandbox, "late").container_id

    async def crash():
        node.runtime.hanging.add("StopPodSandbox")
        request = cri.StopPodSandboxRequest(pod_sandbox_id=sandbox)
        task = asyncio.create_task(node.runtime.handle("StopPodSandbox", request))
        await asyncio.sleep(1)
        node.runtime.forget_clients()
        await node.runtime.handle("StartContainer", cri.StartContainerRequest(container_id=container))
        node.runtime.release()
        await task

    node.run(crash())
    sandboxes = node.runtime.sandboxes
    assert (sandboxes[sandbox].stop_outlived_client, sandboxes[other].stop_outlived_client) == (True, False)
    assert node.runtime.containers[container].outlasted and sandboxes[sandbox].pending_stops == 0


def test_stopped_runtime_closes_streams_and_fails_calls(node):
    async def close():
        received, done, ended = [], node.loop.create_future(), node.loop.create_future()
        node.runtime.when_lost(ended)()

        async def read():
            async for message in node.runtime.stream("Subscribe"):
                received.append(message)

        task = asyncio.create_task(read())
        await asyncio.sleep(1)
        node.runtime.when_lost(done)
        node.runtime._changed("/tasks/start")
        node.runtime.stop_serving()
        with pytest.raises(RuntimeProblem, match="connection closed"):
            await task
        with pytest.raises(RuntimeProblem, match="ECONNREFUSED"):
            await read()
        node.runtime.serve()
        return received, done.result().code, ended.done()

    received, code, ended = node.run(close())
    assert received == [b"\x1a\x0c/tasks/start"] and (code, ended) == ("unavailable", False)
    assert not node.runtime.down


def test_other_streams_are_unimplemented(node):
    async def read():
        async for _ in node.runtime.stream("GetContainerEvents"):
            raise AssertionError

    with pytest.raises(RuntimeProblem, match="unknown method GetContainerEvents"):
        node.run(read())


def test_call_fails_with_its_probability(node):
    node.runtime.failing["Version"] = 0.5

    failed = [isinstance(node.call("Version"), RuntimeProblem) for _ in range(200)]
    node.runtime.failing.clear()

    assert 50 < failed.count(True) < 150
    assert not isinstance(node.call("Version"), RuntimeProblem)


def test_removal_of_an_image_changes_the_store_once(node, sandbox):
    node.runtime.add_image("unused:1")
    changes = node.observer.changes

    for _ in range(2):
        node.call("RemoveImage", image=cri.ImageSpec(image="unused:1"))

    assert node.observer.changes == changes + 1
    assert [image.id for image in node.call("ListImages").images] == ["app:1"] or len(node.runtime.images) == 1


@pytest.mark.parametrize(("running", "recorded"), [(True, 1), (False, 0)])
def test_removal_of_an_image_in_use_is_recorded(node, sandbox, running, recorded):
    container = node.start(sandbox)
    if not running:
        node.runtime.exit(container, 0)
    node.runtime.add_image("other:1")

    for name in ("app:1", "other:1"):
        node.call("RemoveImage", image=cri.ImageSpec(image=name))

    assert sum("which is in use" in str(entry) for entry in node.runtime._trace.recent) == recorded
