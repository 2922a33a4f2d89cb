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
