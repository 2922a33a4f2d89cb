"""Tests for the sequence of the demo, with an API server in memory and without processes."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from nodeagent.contracts.api import CORE_EVENTS, NODES, PODS
from nodeagent.demo import show
from nodeagent.demo.pod import CONTAINERS, NODE, POD
from nodeagent.demo.processes import DemoError, Ports
from nodeagent.demo.runtimes import RuntimeSelection
from nodeagent.demo.show import BUILTIN_IMAGE, PULLED_IMAGE, Demo
from nodeagent.errors import ApiError
from nodeagent.testing import FakeApi

READY = {"type": "Ready", "status": "True", "message": "agent is ready"}
RUNNING = {"state": {"running": {"startedAt": "2024-01-01T00:00:00Z"}}}


class Cluster(FakeApi):
    """API server whose pods run as soon as they are created."""

    starts = True

    async def create(self, resource, obj, namespace=""):
        created = await super().create(resource, obj, namespace)
        if self.starts:
            self.run()
        return created

    def run(self, **metadata):
        pod = self.find(PODS, POD) or {"metadata": {"name": POD, "uid": "earlier"}, "spec": {}}
        pod["metadata"] |= metadata
        statuses = [{"name": name, **RUNNING} for name in CONTAINERS]
        pod["status"] = {"phase": "Running", "qosClass": "BestEffort", "conditions": [READY]}
        pod["status"]["containerStatuses"] = statuses
        self.put(PODS, pod)

    async def delete(self, resource, name, namespace="", **options):
        await self._pass("delete")
        self.remove(resource, name, namespace)

    async def close(self):
        pass


class Process:
    """A process that is never started."""

    def __init__(self, name, log):
        self.name, self.log, self.problem = name, log, ""

    def check(self):
        if self.problem:
            raise DemoError(self.problem)

    def stop(self):
        pass


class Harness:
    """A demo whose processes, runtimes and ports are replaced."""

    def __init__(self, directory, monkeypatch):
        self.directory, self.lines, self.arguments = directory, [], []
        self.api, self.endpoint, self.delete, self.with_kubectl = Cluster(), "", False, True
        self.api.put(NODES, {"metadata": {"name": NODE}, "status": {"conditions": [READY]}})
        self.stop = asyncio.Event()
        server = {"url": "https://127.0.0.1:1", "kubeconfig": "/k", "nodeKubeconfig": "/n", "clientCaFile": "/ca"}

        def start_agent(_directory, arguments, _port):
            self.arguments = arguments
            self.agent = Process("agent", "/agent.log")
            return self.agent

        for name, replacement in {
            "select_runtime": lambda _endpoint: RuntimeSelection(self.endpoint, "reason"),
            "release_root": lambda _root: None,
            "start_api_server": lambda *_: (Process("API server", "/s.log"), server),
            "start_runtime": lambda *_: Process("embedded runtime", "/r.log"),
            "start_agent": start_agent,
            "connect": lambda *_: self.api,
            "_POLL_SECONDS": 0,
        }.items():
            monkeypatch.setattr(show, name, replacement)
        monkeypatch.setattr(Ports, "find", staticmethod(lambda _file: Ports()))
        monkeypatch.setattr(show.shutil, "which", lambda _name: "/bin/kubectl" if self.with_kubectl else None)
        monkeypatch.setattr(show.Demo, "_log", self._log)

    async def _log(self, pod, container):
        self.lines.append(f"Log of {container}")

    async def run(self, *, once=True, image=""):
        async def stop_pods():
            return self.delete

        demo = Demo(self.directory, self.endpoint, image, self.lines.append, stop_pods)
        async with asyncio.timeout(20):
            await demo.run(once=once, stop=self.stop)

    def has(self, pattern):
        return any(re.search(pattern, line) for line in self.lines)

    @property
    def pod(self):
        return self.api.find(PODS, POD)


@pytest.fixture
async def harness(tmp_path, monkeypatch):
    return Harness(tmp_path / "demo", monkeypatch)


async def test_single_run_shows_the_pod_and_deletes_it(harness):
    await harness.run()

    assert harness.has("^Node .* Ready=True") and harness.has("Ready .*after")
    assert harness.has("Stopped +agent, (?=.*embedded runtime)(?=.*API server)")
    assert harness.has("terminated and deleted") and harness.pod is None
    assert not harness.has("^Try$")


@pytest.mark.parametrize("delete", [False, True])
async def test_demo_waits_until_it_is_stopped(harness, delete):
    harness.delete = delete
    running = asyncio.create_task(harness.run(once=False))
    while not harness.has("Ctrl-C stops the demo"):
        assert not running.done()
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not running.done()

    harness.stop.set()
    await running

    assert harness.has("terminated and deleted") is delete
    assert harness.has("keeps running") is not delete
    assert (harness.pod is None) is delete


async def test_stopped_demo_shows_no_commands(harness):
    harness.api.starts = False
    harness.stop.set()

    await harness.run(once=False)

    assert not harness.has("^Try$")


@pytest.mark.parametrize("with_kubectl", [False, True])
async def test_commands_of_kubectl_are_shown_if_it_is_installed(harness, with_kubectl):
    harness.with_kubectl = with_kubectl
    running = asyncio.create_task(harness.run(once=False))
    while not harness.has("Ctrl-C"):
        await asyncio.sleep(0)
    harness.stop.set()
    await running

    assert harness.has("kubectl get pods") is with_kubectl
    assert harness.has(f"nodeagent why default/{POD}")


@pytest.mark.parametrize(
    ("endpoint", "image", "used", "kind"),
    [
        ("", "", BUILTIN_IMAGE, "embedded: reason"),
        ("unix:///c.sock", "", PULLED_IMAGE, "found: reason"),
        ("", "own:1", "own:1", "embedded: reason"),
    ],
)
async def test_image_depends_on_the_runtime(harness, endpoint, image, used, kind):
    harness.endpoint = endpoint
    await harness.run(image=image)

    [request] = harness.api.made("create", PODS)
    assert {each["image"] for each in request.body["spec"]["containers"]} == {used}
    assert harness.has(kind)
    assert harness.has("Stopped.*embedded runtime") is not bool(endpoint)
    config = yaml.safe_load((harness.directory / "config.yaml").read_text())
    assert config["containerRuntimeEndpoint"] == (endpoint or f"unix://{harness.directory}/cri.sock")


@pytest.mark.parametrize(
    ("status", "message", "host_network"),
    [("True", "ready", False), ("False", "container runtime network not ready: no CNI", True)],
)
async def test_pod_uses_the_host_network_without_a_pod_network(harness, status, message, host_network):
    harness.api.put(
        NODES, {"metadata": {"name": NODE}, "status": {"conditions": [{**READY, "status": status, "message": message}]}}
    )

    await harness.run()

    [request] = harness.api.made("create", PODS)
    assert request.body["spec"]["hostNetwork"] is host_network
    assert harness.has("no pod network available") is host_network


async def test_node_that_is_not_ready_for_another_reason_is_awaited(harness, monkeypatch):
    monkeypatch.setattr(show, "WAIT_SECONDS", 0)
    harness.api.put(NODES, {"metadata": {"name": NODE}, "status": {"conditions": [{**READY, "status": "False"}]}})

    with pytest.raises(DemoError, match=r"waiting for the node to register; see the agent's log /agent\.log"):
        await harness.run()


async def test_pod_of_an_earlier_run_is_reused(harness):
    harness.api.run()

    await harness.run()

    assert harness.api.made("create", PODS) == []
    assert harness.has("is running since an earlier run")


@pytest.mark.parametrize("phase", ["Succeeded", "Running"])
async def test_terminated_pod_of_an_earlier_run_is_replaced(harness, phase):
    harness.api.run(**({"deletionTimestamp": "2024-01-01T00:00:00Z"} if phase == "Running" else {}))
    harness.api.put(PODS, {**harness.pod, "status": {**harness.pod["status"], "phase": phase}})

    await harness.run()

    assert len(harness.api.made("create", PODS)) == 1
    assert not harness.has("earlier run")


@pytest.mark.parametrize("waiting", [None, {"reason": "ErrImagePull", "message": "no route"}])
async def test_pod_that_does_not_start_is_reported_with_its_cause(harness, monkeypatch, waiting):
    harness.api.starts = False
    monkeypatch.setattr(show, "WAIT_SECONDS", 0)
    if waiting:
        status = {"phase": "Pending", "containerStatuses": [{"name": "writer", "state": {"waiting": waiting}}]}

        async def create(resource, obj, namespace=""):
            harness.api.put(resource, {**obj, "status": status})

        harness.api.create = create

    with pytest.raises(DemoError) as raised:
        await harness.run()

    assert "waiting for the pod to be Ready" in str(raised.value)
    assert ("writer: ErrImagePull: no route" in str(raised.value)) is bool(waiting)
    assert ("--endpoint embedded" in str(raised.value)) is bool(waiting)


async def test_exit_of_a_process_ends_the_demo(harness):
    harness.api.starts = False
    running = asyncio.create_task(harness.run())
    while not harness.has("^Node"):
        await asyncio.sleep(0)
    harness.agent.problem = "agent exited with code 1"

    with pytest.raises(DemoError, match="agent exited with code 1"):
        await running


async def test_failed_deletion_is_an_error(harness):
    harness.api.fail("delete", ApiError("forbidden", code=403))

    with pytest.raises(DemoError, match="failed to delete the pod: forbidden"):
        await harness.run()


async def test_events_of_the_pod_are_shown_in_order(harness):
    harness.api.run()
    uid = harness.pod["metadata"]["uid"]
    for name, owner, reason in (("b", uid, "Started"), ("a", uid, "Pulled"), ("c", "other", "Killing")):
        event = {"metadata": {"name": name}, "involvedObject": {"uid": owner}, "reason": reason, "message": ""}
        harness.api.put(CORE_EVENTS, event)

    await harness.run()

    shown = harness.lines[harness.lines.index("Events") + 1 :][:2]
    assert [line.split()[0] for line in shown] == ["Pulled", "Started"]
    assert not harness.has("Killing")


async def test_last_lines_of_the_log_are_shown_once_there_are_two(tmp_path, monkeypatch):
    lines = []

    async def keep():
        return False

    demo = Demo(tmp_path, "", "", lines.append, keep)
    demo._processes.append(SimpleNamespace(check=lambda: None, log=Path("/agent.log")))
    directory = tmp_path / "logs/pods" / f"default_{POD}_u" / "writer"
    directory.mkdir(parents=True)
    (directory / "0.log").write_text("t stdout F one\n")
    monkeypatch.setattr(show, "WAIT_SECONDS", 0)
    with pytest.raises(DemoError, match="waiting for the log of container writer"):
        await demo._log({"metadata": {"uid": "u"}}, "writer")

    (directory / "0.log").write_text("t stdout F one\nt stdout F two\n")
    await demo._log({"metadata": {"uid": "u"}}, "writer")
    assert lines == ["Log of container writer", "  one", "  two"]

    lines.clear()
    (directory / "0.log").write_text("".join(f"t stdout F line {number}\n" for number in range(5)))
    await demo._log({"metadata": {"uid": "u"}}, "writer")

    assert lines == ["Log of container writer", "  line 2", "  line 3", "  line 4"]


async def test_pod_is_deleted_once_its_directory_is_removed(harness):
    harness.api.run()
    directory = harness.directory / "root/pods/earlier"
    directory.mkdir(parents=True)
    running = asyncio.create_task(harness.run())
    while harness.pod is not None or not harness.has("^Events"):
        await asyncio.sleep(0)
    for _ in range(20):
        await asyncio.sleep(0)
    assert not running.done()

    directory.rmdir()
    await running


@pytest.mark.parametrize(
    ("user", "state", "directory"),
    [
        (0, "/state", "/var/lib/nodeagent-demo"),
        (1000, "/state", "/state/nodeagent-demo"),
        (1000, "", "/home/u/.local/state/nodeagent-demo"),
    ],
)
def test_default_directory_is_that_of_the_user(monkeypatch, user, state, directory):
    monkeypatch.setattr(show.os, "geteuid", lambda: user)
    monkeypatch.setenv("HOME", "/home/u")
    monkeypatch.setenv("XDG_STATE_HOME", state)
    assert show.default_directory() == Path(directory)
