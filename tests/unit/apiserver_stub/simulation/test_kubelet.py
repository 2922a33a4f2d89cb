"""Tests for the simulated node agent: heartbeats, and the phases of pods."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from apiserver_stub.simulation.client import Lost, Response
from apiserver_stub.simulation.kubelet import FAILING_IMAGE, SLOW_IMAGE, Kubelet
from apiserver_stub.simulation.network import ServerLoop
from nodeagent.base.simulation.clock import SimulatedClock

NODE = "/api/v1/nodes/node-0"
POD = "/api/v1/namespaces/ns/pods/a"
READY = {"conditions": [{"type": "Ready", "status": "True"}]}


class Harness:
    """API server with the pods of a node; changes of their phases are applied."""

    def __init__(self, loop: ServerLoop) -> None:
        self.loop, self.pods, self.sent = loop, list[dict[str, Any]](), list[tuple[str, str, Any]]()
        self.codes: dict[str, int] = {}
        self.is_lost = False
        client: Any = self
        self.kubelet = Kubelet(client, SimulatedClock(loop), 0)
        self.task = loop.create_task(self.kubelet.run())

    def put(self, policy: str = "Always", image: str = "i", phase: str = "", **status: Any) -> dict[str, Any]:
        metadata = {"namespace": "ns", "name": "a", "uid": "u"}
        spec = {"restartPolicy": policy, "containers": [{"image": image}]}
        pod = {"metadata": metadata, "spec": spec, "status": {**({"phase": phase} if phase else {}), **status}}
        self.pods.append(pod)
        return pod

    async def request(self, method: str, path: str, body: Any = None, _content_type: str = "") -> Response:
        if self.is_lost:
            raise Lost("closed")
        self.sent.append((method, path, body))
        if method == "PATCH" and path == f"{POD}/status":
            self.pods[0]["status"].update(body["status"])
        if method == "DELETE":
            self.pods.clear()
        code = self.codes.get(method, 200)
        return Response(code, {}, msgspec.json.encode({"items": self.pods} if code == 200 else {}))

    def wait(self, seconds: float) -> list[tuple[str, str, Any]]:
        """Return the writes in the next seconds."""
        self.sent.clear()
        self.loop.run_until_complete(asyncio.sleep(seconds))
        return [each for each in self.sent if each[0] != "GET" and not each[1].startswith("/api/v1/nodes")]

    def phases(self, seconds: float) -> list[str]:
        return [body["status"]["phase"] for _, _, body in self.wait(seconds)]


@pytest.fixture
def harness() -> Iterator[Harness]:
    loop = ServerLoop(1)
    asyncio.set_event_loop(loop)
    found = Harness(loop)
    yield found
    found.task.cancel()
    loop.run_until_complete(asyncio.gather(found.task, return_exceptions=True))
    asyncio.set_event_loop(None)
    loop.close()


@pytest.mark.parametrize(("code", "methods"), [(200, ["PATCH"]), (404, ["PATCH", "POST"]), (503, ["PATCH"])])
def test_heartbeat_creates_a_missing_node(harness: Harness, code: int, methods: list[str]) -> None:
    harness.codes["PATCH"] = code
    harness.wait(14.0)

    sent = [(method, path) for method, path, _ in harness.sent if method != "GET"]
    assert sent == list(zip(methods, (f"{NODE}/status", "/api/v1/nodes"), strict=False))
    assert sum(method == "GET" for method, _, _ in harness.sent) == 3

    harness.wait(5.0)
    assert (harness.sent[0][:2], len(sent)) == (("PATCH", f"{NODE}/status"), len(methods))


def test_stopped_node_sends_nothing(harness: Harness) -> None:
    harness.kubelet.stopped = True
    harness.wait(30.0)
    assert harness.sent == []

    harness.kubelet.stopped = False
    harness.wait(30.0)
    assert harness.sent


def test_node_continues_after_a_lost_request(harness: Harness) -> None:
    harness.is_lost = True
    harness.wait(30.0)
    harness.is_lost = False
    harness.put()

    assert harness.phases(10.0) == ["Running"]


def test_pods_are_not_synced_without_a_list(harness: Harness) -> None:
    harness.put()
    harness.codes["GET"] = 503

    assert harness.wait(30.0) == []


def test_pending_pods_run_with_different_addresses(harness: Harness) -> None:
    harness.put()
    (first,) = harness.wait(9.0)
    assert first[:2] == ("PATCH", f"{POD}/status")
    assert (first[2]["metadata"], first[2]["status"]["podIP"]) == ({"uid": "u"}, "10.0.0.1")
    assert {each["type"]: each["status"] for each in first[2]["status"]["conditions"]} == dict.fromkeys(
        ("PodScheduled", "Initialized", "ContainersReady", "Ready"), "True"
    )

    harness.pods.clear()
    harness.put(phase="Pending")
    (second,) = harness.wait(9.0)
    assert second[2]["status"]["podIPs"] == [{"ip": "10.0.0.2"}]


def test_deleted_pod_is_removed_by_its_uid(harness: Harness) -> None:
    harness.put(phase="Running", **READY)["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

    body = {"gracePeriodSeconds": 0, "preconditions": {"uid": "u"}}
    assert harness.wait(20.0) == [("DELETE", POD, body)]


@pytest.mark.parametrize(
    ("image", "phase", "seconds"),
    [("i", "Succeeded", 20.0), (FAILING_IMAGE, "Failed", 20.0), (SLOW_IMAGE, "Succeeded", 150.0)],
)
def test_pod_of_a_job_ends_after_some_time(harness: Harness, image: str, phase: str, seconds: float) -> None:
    harness.put("Never", image)

    assert harness.phases(seconds) == ["Running"]
    (ended,) = harness.wait(10.0)
    assert ended[2]["status"]["phase"] == phase
    ready = next(each for each in ended[2]["status"]["conditions"] if each["type"] == "Ready")
    assert ready["status"] == "False"
    assert harness.phases(30.0) == []


@pytest.mark.parametrize(
    ("phase", "status", "reported"),
    [
        ("Running", READY, []),
        ("Running", {}, ["Running"]),
        ("Running", {"conditions": [{"type": "Ready", "status": "False"}]}, ["Running"]),
        ("Running", {"conditions": [{"type": "Initialized", "status": "True"}]}, ["Running"]),
        ("Succeeded", {}, []),
    ],
)
def test_running_pod_that_is_not_ready_is_reported_again(
    harness: Harness, phase: str, status: Any, reported: list[str]
) -> None:
    harness.put(phase=phase, **status)

    assert harness.phases(20.0) == reported
