"""Tests for ``nodeagent volumes``."""

from __future__ import annotations

import json

import pytest

from nodeagent import local_client
from nodeagent.cli.main import main
from nodeagent.contracts.volume_report import VolumeLine, VolumesReport

LINE = VolumeLine(
    "default", "web", "u", "StatefulSet/web", "v", "pv", "data", "csi:x", "Staging", "/p",
    "MountDevice", None, "broken", 4.0, 3 << 20, 5 << 30,
)  # fmt: skip


@pytest.fixture
def report(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    requests: list[object] = []

    def query(root: object, name: str, request: object, kind: object) -> VolumesReport:
        requests.append(request)
        return VolumesReport("node-1", [LINE])

    monkeypatch.setattr(local_client, "query", query)
    return requests


def test_table_lists_volumes_and_their_problems(report: list[object], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["volumes", "web"]) == 0
    text = capsys.readouterr().out
    assert "default/web  v" in text and "3Mi" in text and "5Gi" in text and "StatefulSet/web" in text
    assert "default/web v: MountDevice: broken; next attempt in 4 s" in text
    assert (report[0].namespace, report[0].pod) == ("default", "web")  # type: ignore[attr-defined]


def test_json_contains_all_fields(report: list[object], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["volumes", "-o", "json"]) == 0
    volume = json.loads(capsys.readouterr().out)["volumes"][0]
    assert (volume["podUID"], volume["claim"], volume["usedBytes"], volume["retrySeconds"]) == ("u", "data", 3 << 20, 4)


@pytest.mark.parametrize(
    ("line", "cells"),
    [
        (VolumeLine(), ["-", "-", "-", "-", "-", "-", "-"]),
        (VolumeLine(pod_uid="u", name="pv", state="Mounted"), ["u", "pv", "-", "-", "Mounted", "-", "-", "-", "-"]),
        (
            VolumeLine(namespace="a", pod="p", volume="v", name="pv", claim="c", driver="d", state="s", owner="o"),
            ["a/p", "v", "c", "d", "s", "-", "-", "o", "-"],
        ),
    ],
)
def test_missing_fields_are_dashes(
    line: VolumeLine, cells: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(local_client, "query", lambda *_: VolumesReport("node-1", [line]))

    assert main(["volumes"]) == 0

    assert capsys.readouterr().out.splitlines()[-1].split() == cells


@pytest.mark.parametrize(
    ("pod", "expected"), [("", ("", "")), ("web", ("default", "web")), ("shop/web", ("shop", "web"))]
)
def test_pod_without_namespace_is_in_the_default_one(report: list[object], pod: str, expected: tuple[str, str]) -> None:
    assert main(["volumes", *([pod] if pod else [])]) == 0
    assert (report[0].namespace, report[0].pod) == expected  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"volume": "v", "error": "broken"}, "- v: broken"),
        (
            {"name": "pv", "error": "e", "call": "Mount", "retry_seconds": 0.0},
            "- pv: Mount: e; next attempt in 0 s",
        ),
    ],
)
def test_problem_has_call_and_retry_if_there_is_one(
    fields: dict[str, object], text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(local_client, "query", lambda *_: VolumesReport("node-1", [VolumeLine(**fields)]))  # type: ignore[arg-type]

    assert main(["volumes"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == text


@pytest.mark.parametrize(
    ("amount", "text"), [(0, "0"), (1023, "1023"), ((1 << 20) - 1, "1048575"), (1 << 20, "1Mi"), ((3 << 20) - 1, "2Mi")]
)
def test_sizes_are_rounded_down_to_mebibytes(
    amount: int, text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    line = VolumeLine(name="pv", state="s", used_bytes=amount)
    monkeypatch.setattr(local_client, "query", lambda *_: VolumesReport("node-1", [line]))

    assert main(["volumes"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split()[5] == text


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (local_client.AgentUnreachable("start it"), 3, "nodeagent: start it"),
        (local_client.AgentRequestFailed("busy"), 1, "nodeagent: failed to get the volumes: busy"),
    ],
)
def test_failed_query_prints_the_error(
    error: Exception, code: int, text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def query(*_: object) -> None:
        raise error

    monkeypatch.setattr(local_client, "query", query)

    assert main(["volumes"]) == code
    assert capsys.readouterr().err == f"{text}\n"
