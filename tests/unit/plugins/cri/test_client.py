"""Tests for the CRI client: requests and their timeouts."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from nodeagent.base.criproto import api_pb2 as cri
from nodeagent.base.criproto import changes, content
from nodeagent.contracts.runtime import (
    ContainerConfig,
    ContainerRuntime,
    Credentials,
    ExecResult,
    ImageService,
    LinuxResources,
    ProgressReportingImageService,
    RuntimeFeatures,
    RuntimeHandler,
    RuntimeStatus,
    SandboxConfig,
    Transfer,
)
from nodeagent.errors import NotFound, RuntimeFailure, RuntimeTimeout, RuntimeUnavailable
from nodeagent_plugins.cri.client import CriRuntime
from nodeagent_plugins.cri.connection import DURATIONS, FAILURES, METHODS, OPERATIONS, Connection
from nodeagent_plugins.cri.errors import UnimplementedError
from nodeagent_plugins.cri.image_service import CriImageService

SANDBOX = SandboxConfig(name="web", uid="u1", namespace="default", annotations={"a": "1"})
CONTAINER = ContainerConfig(name="main", attempt=0, image="busybox")


class FakeConnection:
    """Responds to each call with an empty message or the entry in ``responses``; raises it if it is an exception."""

    endpoint = "unix:///fake"
    timeout_seconds = 120.0

    def __init__(self) -> None:
        self.responses: dict[str, Any] = {}
        self.delay: Awaitable[None] | None = None
        self.calls: list[tuple[str, Any, float | None]] = []

    async def call(
        self, name: str, request: Any, attempt: str, timeout_seconds: float | None = 0, *metadata: tuple[str, str]
    ) -> Any:
        self.calls.append((name, request, self.timeout_seconds if timeout_seconds == 0 else timeout_seconds))
        if self.delay is not None:
            await self.delay
        response = self.responses.get(name, METHODS[name].response())
        if isinstance(response, Exception):
            raise response
        return response

    finish = leave = call

    async def stream(self, name: str, request: Any, attempt: str) -> AsyncGenerator[Any, None]:
        for response in self.responses.get(name, ()):
            if isinstance(response, Exception):
                raise response
            yield response


@pytest.fixture
def connection() -> FakeConnection:
    return FakeConnection()


@pytest.fixture
def runtime(connection, clock) -> CriRuntime:
    return CriRuntime(connection, clock)


@pytest.fixture
def images(connection) -> CriImageService:
    return CriImageService(connection)


Call = Callable[[CriRuntime, CriImageService], Any]
PLAIN: dict[str, Call] = {
    "Version": lambda r, i: r.version(),
    "UpdateRuntimeConfig": lambda r, i: r.update_pod_cidr("10.0.0.0/24"),
    "StopPodSandbox": lambda r, i: r.stop_sandbox("s"),
    "RemovePodSandbox": lambda r, i: r.remove_sandbox("s"),
    "ListPodSandbox": lambda r, i: r.list_sandboxes(),
    "PodSandboxStatus": lambda r, i: r.sandbox_status("s"),
    "CreateContainer": lambda r, i: r.create_container("s", CONTAINER, SANDBOX),
    "StartContainer": lambda r, i: r.start_container("c"),
    "RemoveContainer": lambda r, i: r.remove_container("c"),
    "ListContainers": lambda r, i: r.list_containers(),
    "ContainerStatus": lambda r, i: r.container_status("c"),
    "UpdateContainerResources": lambda r, i: r.update_resources("c", LinuxResources(cpu_shares=2)),
    "UpdatePodSandboxResources": lambda r, i: r.update_sandbox_resources("s", None, LinuxResources(cpu_shares=2)),
    "ReopenContainerLog": lambda r, i: r.reopen_log("c"),
    "Exec": lambda r, i: r.exec_url("c", ["sh"], stdin=True, stdout=True, stderr=False, tty=True),
    "Attach": lambda r, i: r.attach_url("c", stdin=True, stdout=True, stderr=False, tty=True),
    "PortForward": lambda r, i: r.port_forward_url("s", [80]),
    "ListContainerStats": lambda r, i: r.container_stats(),
    "ListPodSandboxStats": lambda r, i: r.sandbox_stats(),
    "ListImages": lambda r, i: i.list_images(),
    "ImageStatus": lambda r, i: i.image_status("busybox"),
    "RemoveImage": lambda r, i: i.remove_image("busybox"),
    "ImageFsInfo": lambda r, i: i.filesystem_usage(),
}


@pytest.mark.parametrize("name", PLAIN)
async def test_plain_call_uses_the_configured_timeout(name, connection, runtime, images):
    await PLAIN[name](runtime, images)

    assert [(called, bound) for called, _, bound in connection.calls] == [(name, 120)]


async def test_first_status_also_requests_the_version(connection, runtime):
    connection.responses["Version"] = cri.VersionResponse(runtime_name="containerd", runtime_version="v2.1.3")
    handlers = [cri.RuntimeHandler(name="runc", features=cri.RuntimeHandlerFeatures(user_namespaces=True))]
    features = cri.RuntimeFeatures(supplemental_groups_policy=True)
    connection.responses["Status"] = cri.StatusResponse(runtime_handlers=handlers, features=features)

    status = [await runtime.status() for _ in range(2)][-1]

    assert status == RuntimeStatus(
        (), (RuntimeHandler("runc", False, True),), RuntimeFeatures(True, False), image_volumes=True
    )
    assert [name for name, _, _ in connection.calls] == ["Status", "Version", "Status"]


async def test_status_without_features_reports_none(connection, runtime):
    connection.responses["Version"] = cri.VersionResponse(runtime_name="containerd", runtime_version="1.6.20~ds1")

    assert await runtime.status() == RuntimeStatus()


async def test_run_sandbox_has_twice_the_timeout(connection, runtime):
    await runtime.run_sandbox(SANDBOX, "crun")

    ((name, request, bound),) = connection.calls
    assert (name, request.runtime_handler, bound) == ("RunPodSandbox", "crun", 240)


async def test_stop_container_adds_the_grace_period_to_the_timeout(connection, runtime):
    await runtime.stop_container("c", 30)

    ((name, request, bound),) = connection.calls
    assert (name, request.timeout, bound) == ("StopContainer", 30, 150)


@pytest.mark.parametrize(("timeout", "sent", "bound"), [(5, 5, 125), (0.2, 1, 121), (0, 0, None)])
async def test_exec_adds_its_own_timeout(timeout, sent, bound, connection, runtime):
    connection.responses["ExecSync"] = cri.ExecSyncResponse(exit_code=3, stdout=b"o", stderr=b"e")

    assert await runtime.exec_sync("c", ["true"], timeout) == ExecResult(3, b"o", b"e")
    ((_, request, used),) = connection.calls
    assert (request.timeout, used) == (sent, bound)


async def test_exec_stopped_by_the_runtime_is_a_timeout(connection, runtime):
    connection.responses["ExecSync"] = RuntimeTimeout("run sleep: timeout 1s exceeded")

    with pytest.raises(TimeoutError, match="run sleep in container c: timed out after 1 s"):
        await runtime.exec_sync("c", ["sleep", "9"], 1)


async def test_exec_stopped_by_the_client_deadline_is_an_unavailable_runtime(connection, runtime, clock):
    connection.responses["ExecSync"] = RuntimeTimeout("run sleep: Deadline Exceeded")
    connection.delay = clock.advance(121)

    with pytest.raises(RuntimeUnavailable):
        await runtime.exec_sync("c", ["sleep", "9"], 1)


async def test_pull_has_no_timeout(connection, images):
    connection.responses["PullImage"] = cri.PullImageResponse(image_ref="sha256:1")

    assert await images.pull_image("busybox", Credentials("me", "hunter2"), SANDBOX) == "sha256:1"
    ((_, request, bound),) = connection.calls
    assert bound is None
    assert (request.auth.username, request.auth.password) == ("me", "hunter2")
    assert dict(request.image.annotations) == {"a": "1"}
    assert request.sandbox_config.metadata.uid == "u1"


async def test_pull_without_credentials_sends_none(connection, images):
    await images.pull_image("busybox")

    ((_, request, _),) = connection.calls
    assert not request.HasField("auth")
    assert not request.HasField("sandbox_config")


@pytest.mark.parametrize("name", ["StopPodSandbox", "RemovePodSandbox", "RemoveContainer"])
async def test_stop_and_remove_of_an_unknown_object_succeed(name, connection, runtime, images):
    connection.responses[name] = NotFound("gone")

    await PLAIN[name](runtime, images)


@pytest.mark.parametrize("response", [NotFound("no"), cri.ImageStatusResponse()])
async def test_missing_image_returns_none(response, connection, images):
    connection.responses["ImageStatus"] = response

    assert await images.image_status("busybox") is None


async def test_listing_one_pod_filters_by_its_uid(connection, runtime):
    await runtime.list_sandboxes("u1")
    await runtime.list_containers("u1")

    assert [dict(r.filter.label_selector) for _, r, _ in connection.calls] == [{"io.kubernetes.pod.uid": "u1"}] * 2


async def test_ids_and_urls_are_returned(connection, runtime):
    connection.responses = {
        "RunPodSandbox": cri.RunPodSandboxResponse(pod_sandbox_id="s"),
        "CreateContainer": cri.CreateContainerResponse(container_id="c"),
        "Exec": cri.ExecResponse(url="http://x"),
        "Attach": cri.AttachResponse(url="http://y"),
        "PortForward": cri.PortForwardResponse(url="http://z"),
    }

    assert await runtime.run_sandbox(SANDBOX) == "s"
    assert await runtime.create_container("s", CONTAINER, SANDBOX) == "c"
    assert await PLAIN["Exec"](runtime, None) == "http://x"
    assert await PLAIN["Attach"](runtime, None) == "http://y"
    assert await PLAIN["PortForward"](runtime, None) == "http://z"


@pytest.mark.parametrize(
    ("version", "enabled", "problem"),
    [
        ("1.6.20", None, "containerd 1.6.20 does not support CDI devices"),
        ("1.7.24", False, "CDI is disabled in the configuration of containerd 1.7.24"),
        ("1.7.24", True, ""),
    ],
)
async def test_container_is_not_created_without_its_cdi_devices(connection, runtime, version, enabled, problem):
    connection.responses = {
        "CreateContainer": cri.CreateContainerResponse(container_id="c"),
        "Version": cri.VersionResponse(runtime_name="containerd", runtime_version=version),
        "Status": cri.StatusResponse(info={"config": json.dumps({"enableCDI": enabled})}),
    }
    config = dataclasses.replace(CONTAINER, cdi_devices=("example.com/gpu=x",))

    if problem:
        with pytest.raises(RuntimeFailure, match=f"of default/web: CDI devices example.com/gpu=x: {problem}"):
            await runtime.create_container("s", config, SANDBOX)
    else:
        assert await runtime.create_container("s", config, SANDBOX) == "c"


async def test_cdi_devices_are_in_an_annotation_for_an_older_runtime(connection, runtime):
    connection.responses = {
        "CreateContainer": cri.CreateContainerResponse(container_id="c"),
        "Version": cri.VersionResponse(runtime_name="containerd", runtime_version="1.7.1"),
        "Status": cri.StatusResponse(info={"config": json.dumps({"enableCDI": True})}),
    }
    names = ("example.com/gpu=x", "example.com/gpu=y")

    await runtime.create_container("s", dataclasses.replace(CONTAINER, cdi_devices=names), SANDBOX)

    (request,) = [request for name, request, _ in connection.calls if name == "CreateContainer"]
    assert request.config.annotations["cdi.k8s.io/nodeagent_devices"] == "example.com/gpu=x,example.com/gpu=y"


async def test_events_are_yielded_in_order(connection, runtime):
    responses = [cri.ContainerEventResponse(container_id="c1"), cri.ContainerEventResponse(container_id="c2")]
    connection.responses["GetContainerEvents"] = responses

    assert [event.container_id async for event in runtime.events()] == ["c1", "c2"]


async def test_runtime_without_events_raises_not_implemented(connection, runtime):
    connection.responses["GetContainerEvents"] = [UnimplementedError("unknown method")]

    with pytest.raises(NotImplementedError):
        await anext(runtime.events())


async def test_changes_of_containers_are_notified(connection, runtime):
    connection.responses["Subscribe"] = [
        changes.Envelope(topic="/tasks/start"),
        changes.Envelope(topic="/tasks/delete"),
    ]

    assert [change async for change in runtime.changes()] == [None, None]


async def test_runtime_without_notifications_raises_not_implemented(connection, runtime):
    connection.responses["Subscribe"] = [UnimplementedError("unknown method")]

    with pytest.raises(NotImplementedError):
        await anext(runtime.changes())


async def test_runtime_without_sandbox_stats_raises_not_implemented(connection, runtime):
    connection.responses["ListPodSandboxStats"] = UnimplementedError("unknown method")

    with pytest.raises(NotImplementedError):
        await runtime.sandbox_stats()


def test_runtime_and_image_service_implement_their_contracts(runtime, images):
    kept: tuple[ContainerRuntime, ImageService] = (runtime, images)

    for contract, part in zip((ContainerRuntime, ImageService), kept, strict=True):
        for name in vars(contract):
            assert name.startswith("_") or callable(getattr(part, name)), name


async def test_operations_have_upstream_metric_names():
    assert {METHODS[name].operation for name in ("RunPodSandbox", "ListPodSandbox", "PodSandboxStatus")} == {
        "run_podsandbox",
        "list_podsandbox",
        "podsandbox_status",
    }
    assert [METHODS[name].operation for name in ("UpdateContainerResources", "ImageFsInfo", "ReopenContainerLog")] == [
        "update_container",
        "image_fs_info",
        "reopen_container_log",
    ]


async def test_failed_call_is_counted(tmp_path):
    connection = Connection(f"unix://{tmp_path}/nobody.sock", timeout_seconds=5)
    counters = (OPERATIONS, FAILURES)
    before = [counter.value("version") for counter in counters]

    with pytest.raises(RuntimeUnavailable):
        await connection.call("Version", cri.VersionRequest(), "ask for the version")
    await connection.close()

    assert [counter.value("version") - count for counter, count in zip(counters, before, strict=True)] == [1, 1]
    assert DURATIONS.count("version") >= 1


class SlowConnection(Connection):
    """Responds once ``may_respond`` is set."""

    def __init__(self, response: Any = None) -> None:
        super().__init__("unix:///nobody.sock", timeout_seconds=5)
        self.response = response or cri.StartContainerResponse()
        self.may_respond, self.ended = asyncio.Event(), False

    async def call(self, *_: Any) -> Any:
        await self.may_respond.wait()
        self.ended = True
        return self.response


async def test_cancelled_start_completes(clock):
    connection = SlowConnection()
    start = asyncio.create_task(CriRuntime(connection, clock).start_container("c"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    start.cancel()
    await asyncio.sleep(0.01)
    assert not start.done()
    connection.may_respond.set()

    with pytest.raises(asyncio.CancelledError):
        await start
    assert connection.ended


async def test_cancelled_start_that_hangs_is_abandoned(clock, monkeypatch):
    monkeypatch.setattr("nodeagent_plugins.cri.connection.FINISH_SECONDS", 0.01)
    connection = SlowConnection()
    start = asyncio.create_task(CriRuntime(connection, clock).start_container("c"))
    await asyncio.sleep(0)

    start.cancel()

    with pytest.raises(asyncio.CancelledError):
        await start
    connection.may_respond.set()
    await asyncio.sleep(0.01)
    assert not connection.ended


@pytest.fixture
async def slow(clock) -> AsyncIterator[SlowConnection]:
    """Connection without a response, and a cancelled execution of a command."""
    connection = SlowConnection(cri.ExecSyncResponse())
    work = asyncio.create_task(CriRuntime(connection, clock).exec_sync("c", ["test"], 1))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    yield connection
    await connection.close()


async def test_cancelled_command_completes_in_the_background(slow):
    slow.may_respond.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    assert slow.ended


async def test_cancelled_command_may_complete_before_the_connection_is_closed(slow):
    closing = asyncio.create_task(slow.close())
    await asyncio.sleep(0.01)
    slow.may_respond.set()
    await closing

    assert slow.ended


async def test_cancelled_command_that_hangs_is_abandoned(slow, monkeypatch):
    monkeypatch.setattr("nodeagent_plugins.cri.connection.CLOSE_SECONDS", 0.01)

    await slow.close()

    assert not slow.ended


async def test_pull_progress_is_reported(connection: FakeConnection) -> None:
    status = content.Status(ref="layer-sha256:1", offset=5, total=10)
    connection.responses["ListStatuses"] = content.ListStatusesResponse(statuses=[status])
    images: ImageService = CriImageService(connection)

    assert isinstance(images, ProgressReportingImageService)
    assert await images.transfers() == (Transfer("layer-sha256:1", 5, 10),)


async def test_missing_pull_progress_is_requested_once(connection: FakeConnection) -> None:
    connection.responses["ListStatuses"] = UnimplementedError("no such call")
    images = CriImageService(connection)

    assert [await images.transfers(), await images.transfers()] == [None, None]
    assert [name for name, _, _ in connection.calls] == ["ListStatuses"]


async def test_runtime_handler_of_an_image_is_sent(connection, images):
    await images.pull_image("busybox", runtime_handler="kata")
    await images.image_status("busybox", runtime_handler="kata")

    assert [request.image.runtime_handler for _, request, _ in connection.calls] == ["kata", "kata"]


async def test_runtime_without_sandbox_resources_is_reported(connection, runtime):
    connection.responses["UpdatePodSandboxResources"] = UnimplementedError("unknown method")

    with pytest.raises(NotImplementedError):
        await runtime.update_sandbox_resources("s", LinuxResources(), LinuxResources(memory_limit_bytes=1))


@pytest.mark.parametrize(
    ("response", "driver"),
    [
        (cri.RuntimeConfigResponse(), ""),
        (cri.RuntimeConfigResponse(linux=cri.LinuxRuntimeConfiguration(cgroup_driver=cri.CGROUPFS)), "cgroupfs"),
        (cri.RuntimeConfigResponse(linux=cri.LinuxRuntimeConfiguration(cgroup_driver=cri.SYSTEMD)), "systemd"),
        (UnimplementedError("unknown method"), ""),
    ],
)
async def test_cgroup_driver_is_empty_if_the_runtime_does_not_report_it(response, driver, connection, runtime):
    connection.responses["RuntimeConfig"] = response

    assert await runtime.cgroup_driver() == driver


async def test_calls_have_the_trace_context_and_their_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []

    async def version(_request: Any, *, timeout: float, metadata: Any) -> bytes:
        sent.append((timeout, metadata))
        return cri.VersionResponse().SerializeToString()

    connection = Connection("unix:///fake", 120.0)
    connection._calls["Version"] = version
    await connection.call("Version", cri.VersionRequest(), "version")
    monkeypatch.setattr("nodeagent_plugins.cri.connection.tracing.outgoing", lambda: {"traceparent": "00-1"})
    await connection.call("Version", cri.VersionRequest(), "version", 5.0, ("key", "value"))

    assert sent == [(120.0, ()), (5.0, (("traceparent", "00-1"), ("key", "value")))]
