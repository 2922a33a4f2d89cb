"""Tests for ``nodeagent devices``."""

from __future__ import annotations

import json

import pytest

from nodeagent import local_client
from nodeagent.cli.main import main
from nodeagent.contracts.device_report import DeviceLine, DevicesReport, DeviceUser, ResourceLine

WIDGET = "example.com/widget"
USER = DeviceUser("default", "web", "u", "main", "ReplicaSet/web", allocated=True)
REPORT = DevicesReport(
    "node-1",
    [
        ResourceLine(WIDGET, "/d/w.sock", True, 2, 1, 1),
        ResourceLine("example.com/late", "", False, 4, 0, 0, None, "not registered", ["default/held"]),
    ],
    [
        DeviceLine(WIDGET, "w0", "Healthy", "", [0, 1], [USER]),
        DeviceLine(WIDGET, "w1", "Unhealthy", "overheated"),
    ],
)


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    found: list[object] = []

    def query(root: object, name: str, request: object, kind: object) -> DevicesReport:
        found.append(request)
        return REPORT

    monkeypatch.setattr(local_client, "query", query)
    return found


def test_table_lists_resources_devices_and_problems(requests: list[object], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devices", WIDGET]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert f"{WIDGET} 2 1 1 yes /d/w.sock" in lines
    assert f"{WIDGET} w0 Healthy 0,1 default/web main ReplicaSet/web" in lines
    assert f"{WIDGET} w1 Unhealthy - - -" in lines
    assert "example.com/late: not registered" in lines
    assert "example.com/late: pods waiting for the plugin: default/held" in lines
    assert f"{WIDGET} w1: overheated" in lines
    assert requests[0].resource == WIDGET  # type: ignore[attr-defined]


def test_json_contains_all_fields(requests: list[object], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devices", "-o", "json"]) == 0
    device = json.loads(capsys.readouterr().out)["devices"][0]
    assert (device["id"], device["numaNodes"], device["users"][0]["podUID"]) == ("w0", [0, 1], "u")


def test_unreachable_agent_is_reported(tmp_path: object, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devices", "--root-dir", str(tmp_path)]) == 3
    assert "nodeagent: " in capsys.readouterr().err


def test_reserved_devices_and_pods_without_a_name_are_listed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    users = [
        DeviceUser("default", "web", "u", "main", "", allocated=False),
        DeviceUser("", "", "gone", "main", "", allocated=True),
    ]
    report = DevicesReport("node-1", [], [DeviceLine(WIDGET, "w0", "Healthy", "", [], users)])
    monkeypatch.setattr(local_client, "query", lambda *_: report)

    assert main(["devices"]) == 0

    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert f"{WIDGET} w0 Healthy - default/web main (reserved) -" in lines
    assert f"{WIDGET} w0 Healthy - gone main -" in lines


def test_failed_query_prints_the_error(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def query(*_: object) -> None:
        raise local_client.AgentRequestFailed("busy")

    monkeypatch.setattr(local_client, "query", query)

    assert main(["devices"]) == 1
    assert capsys.readouterr().err == "nodeagent: failed to get the devices: busy\n"
