"""Tests for ``nodeagent shutdown rehearse``, which reads the plan that the agent stores on disk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nodeagent import local_client
from nodeagent.cli.main import main
from nodeagent.contracts.shutdown import ShutdownPeriods, ShutdownPlan, ShutdownPod, plan_file, plan_to_json

CRITICAL = 2_000_000_000
PODS = [ShutdownPod("default", "web", "uid-web", 0, 30), ShutdownPod("kube-system", "dns", "uid-dns", CRITICAL, 600)]


@pytest.fixture(autouse=True)
def running(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_client, "is_listening", lambda root: True)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write(tmp_path, ShutdownPeriods([(0, 20), (CRITICAL, 10)]))
    return tmp_path


def write(root: Path, periods: ShutdownPeriods, problem: str = "") -> None:
    plan_file(root).write_text(json.dumps(plan_to_json(ShutdownPlan(periods, PODS, problem))))


def test_order_and_grace_periods_are_printed(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["shutdown", "rehearse", "--root-dir", str(root)]) == 0

    assert capsys.readouterr().out.splitlines() == [
        "    0.0 s  priority 0 and above, until 20.0 s at the latest",
        "           default/web  priority 0, grace period 20 s",
        "   20.0 s  priority 2000000000 and above, until 30.0 s at the latest",
        "           kube-system/dns  priority 2000000000, grace period 10 s",
        "   30.0 s  the shutdown continues; it is delayed by 30 s at most",
    ]


def test_json_output_contains_order_and_grace_periods(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["shutdown", "rehearse", "--root-dir", str(root), "-o", "json"]) == 0

    report = json.loads(capsys.readouterr().out)
    assert (report["enabled"], report["totalSeconds"], report["delaySeconds"]) == (True, 30, 30)
    assert [[pod["name"] for pod in group["pods"]] for group in report["groups"]] == [["web"], ["dns"]]
    assert report["groups"][1]["pods"][0]["graceSeconds"] == 10


def test_shutdown_that_would_not_wait_is_reported(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(root, ShutdownPeriods([(0, 20)]), problem="connect to the system's message bus: no such file")

    assert main(["shutdown", "rehearse", "--root-dir", str(root)]) == 1

    output = capsys.readouterr()
    assert "default/web" in output.out
    assert "would not wait for the pods: connect to the system's message bus: no such file" in output.err


def test_stopped_agent_is_reported(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_client, "is_listening", lambda root: False)

    assert main(["shutdown", "rehearse", "--root-dir", str(root)]) == 1

    assert "the agent is not running" in capsys.readouterr().err


def test_periods_of_another_configuration_are_used(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "new.yaml"
    file.write_text(
        "apiVersion: nodeagent.config.k8s.io/v1beta1\nkind: NodeAgentConfiguration\n"
        "containerRuntimeEndpoint: unix:///run/a.sock\n"
        "shutdownGracePeriodByPodPriority: [{priority: 0, shutdownGracePeriodSeconds: 5}]\n"
    )

    assert main(["shutdown", "rehearse", "--root-dir", str(root), "--config", str(file), "-o", "json"]) == 0

    [group] = json.loads(capsys.readouterr().out)["groups"]
    assert [(pod["name"], pod["graceSeconds"]) for pod in group["pods"]] == [("web", 5), ("dns", 5)]


def test_disabled_graceful_shutdown_is_reported(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(root, ShutdownPeriods())

    assert main(["shutdown", "rehearse", "--root-dir", str(root)]) == 0

    assert "Graceful node shutdown is disabled: 2 pods" in capsys.readouterr().out


@pytest.mark.parametrize("content", [None, "{", "{}"])
def test_missing_or_invalid_plan_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None
) -> None:
    if content is not None:
        plan_file(tmp_path).write_text(content)

    assert main(["shutdown", "rehearse", "--root-dir", str(tmp_path)]) == 1

    assert "shutdown_plan.json" in capsys.readouterr().err


@pytest.mark.parametrize(("count", "text"), [(0, "0 pods"), (1, "1 pod "), (2, "2 pods")])
def test_number_of_pods_that_would_be_killed_is_printed(
    root: Path, capsys: pytest.CaptureFixture[str], count: int, text: str
) -> None:
    plan_file(root).write_text(json.dumps(plan_to_json(ShutdownPlan(ShutdownPeriods(), PODS[:count]))))

    assert main(["shutdown", "rehearse", "--root-dir", str(root), "-o", "text"]) == 0
    assert f"Graceful node shutdown is disabled: {text}" in capsys.readouterr().out


def test_disabled_shutdown_has_no_groups(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(root, ShutdownPeriods())

    assert main(["shutdown", "rehearse", "--root-dir", str(root), "-o", "json"]) == 0

    report = json.loads(capsys.readouterr().out)
    assert (report["enabled"], report["totalSeconds"], report["groups"], report["pods"]) == (False, 0, [], 2)
