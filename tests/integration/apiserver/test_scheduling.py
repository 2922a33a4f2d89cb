"""Tests for scheduling to the only node: binding, and reasons of pods that do not fit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from .conftest import Api, Server

NODES, PODS = "/api/v1/nodes", "/api/v1/namespaces/default/pods"
MERGE = "application/merge-patch+json"
READY = [{"type": "Ready", "status": "True"}]
NO_VICTIMS = "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """Administrator's client of a server with one ready node."""
    server = Server(tmp_path_factory.mktemp("scheduling"))
    api = server.api()
    allocatable = {"cpu": "2", "memory": "2Gi", "pods": "20"}
    node = {"metadata": {"name": "n1", "labels": {"disk": "ssd"}}}
    api.ok("POST", NODES, {**node, "status": {"conditions": READY, "allocatable": allocatable}})
    wait_for(lambda: "taints" not in api.ok("GET", f"{NODES}/n1")["spec"])
    yield api
    assert server.stop() == 0


def wait_for(condition: Callable[[], Any], seconds: float = 20) -> Any:
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.02)
    return found


def create(api: Api, name: str, requests: dict[str, str] | None = None, **spec: Any) -> None:
    container = {"name": "c", "image": "registry.example/c:1", "resources": {"requests": requests or {}}}
    api.ok("POST", PODS, {"metadata": {"name": name}, "spec": {"containers": [container], **spec}})


def scheduled(api: Api, name: str) -> dict[str, Any] | None:
    """Return the condition of the pod, once there is one."""
    conditions = api.ok("GET", f"{PODS}/{name}")["status"].get("conditions") or ()
    return next((item for item in conditions if item["type"] == "PodScheduled"), None)


def events(api: Api, name: str, path: str = "/api/v1", field: str = "involvedObject") -> list[dict[str, Any]]:
    found = api.ok("GET", f"{path}/namespaces/default/events?fieldSelector={field}.name={name}")
    items: list[dict[str, Any]] = found["items"]
    return items


def test_pod_that_fits_is_bound_with_an_event(alone: Api) -> None:
    create(alone, "fits", {"cpu": "100m"}, nodeSelector={"disk": "ssd"})

    wait_for(lambda: alone.ok("GET", f"{PODS}/fits")["spec"].get("nodeName") == "n1")
    (event,) = wait_for(lambda: events(alone, "fits", "/apis/events.k8s.io/v1", "regarding"))
    condition = scheduled(alone, "fits")
    assert condition is not None
    assert condition["status"] == "True"
    shown = [event[name] for name in ("type", "reason", "action", "note", "reportingController")]
    note = "Successfully assigned default/fits to n1"
    assert shown == ["Normal", "Scheduled", "Binding", note, "default-scheduler"]
    assert event["regarding"]["uid"] == alone.ok("GET", f"{PODS}/fits")["metadata"]["uid"]


@pytest.mark.parametrize(
    ("name", "requests", "spec", "reason"),
    [
        ("cpu", {"cpu": "64"}, {}, f"1 Insufficient cpu. {NO_VICTIMS}"),
        (
            "selector",
            {},
            {"nodeSelector": {"disk": "hdd"}},
            "1 node(s) didn't match Pod's node affinity/selector. "
            "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.",
        ),
    ],
)
def test_pod_that_does_not_fit_stays_pending_with_the_reason(
    alone: Api, name: str, requests: dict[str, str], spec: dict[str, Any], reason: str
) -> None:
    create(alone, name, requests, **spec)

    condition = wait_for(lambda: scheduled(alone, name))
    (event,) = wait_for(lambda: events(alone, name))

    message = f"0/1 nodes are available: {reason}"
    assert (condition["status"], condition["reason"], condition["message"]) == ("False", "Unschedulable", message)
    assert (event["type"], event["reason"], event["message"]) == ("Warning", "FailedScheduling", message)
    pod = alone.ok("GET", f"{PODS}/{name}")
    assert pod["status"]["phase"] == "Pending"
    assert "nodeName" not in pod["spec"]


def test_pod_is_bound_once_the_taint_is_removed(alone: Api) -> None:
    taint = {"key": "gpu", "value": "yes", "effect": "NoExecute"}
    alone.ok("PATCH", f"{NODES}/n1", {"spec": {"taints": [taint]}}, content_type=MERGE)
    create(alone, "tainted")
    condition = wait_for(lambda: scheduled(alone, "tainted"))
    assert "1 node(s) had untolerated taint {gpu: yes}" in condition["message"]

    alone.ok("PATCH", f"{NODES}/n1", {"spec": {"taints": None}}, content_type=MERGE)

    wait_for(lambda: alone.ok("GET", f"{PODS}/tainted")["spec"].get("nodeName") == "n1")


def test_gated_pod_states_that_it_is_gated_and_is_bound_afterwards(alone: Api) -> None:
    create(alone, "gated", schedulingGates=[{"name": "example.com/wait"}])
    condition = scheduled(alone, "gated")
    assert condition is not None
    assert (condition["status"], condition["reason"]) == ("False", "SchedulingGated")
    assert condition["message"] == "Scheduling is blocked due to non-empty scheduling gates"

    alone.ok("PATCH", f"{PODS}/gated", {"spec": {"schedulingGates": None}}, content_type=MERGE)

    wait_for(lambda: alone.ok("GET", f"{PODS}/gated")["spec"].get("nodeName") == "n1")


def test_node_that_is_not_ready_is_reported(tmp_path: Path) -> None:
    server = Server(tmp_path / "data")
    try:
        api = server.api()
        api.ok("POST", NODES, {"metadata": {"name": "n1"}})
        create(api, "early")
        condition = wait_for(lambda: scheduled(api, "early"))
        reason = "1 node(s) had untolerated taint {node.kubernetes.io/not-ready: }"
        assert condition["message"].startswith(f"0/1 nodes are available: {reason}. preemption: ")
    finally:
        assert server.stop() == 0
