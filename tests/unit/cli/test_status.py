"""Tests for ``nodeagent status``: rendering for terminals and pipes, exit codes, ``--watch``."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from rich.console import Console

from nodeagent import local_client
from nodeagent.cli import status
from nodeagent.cli.main import main
from nodeagent.contracts.diagnostics import (
    ConditionLine,
    GaugeLine,
    LoopLine,
    NodeOverview,
    PluginCostLine,
    PodLine,
    PullLine,
    Stage,
)

AT = datetime(2024, 1, 1, 3, 0, tzinfo=UTC)


def pod(name: str, **fields) -> PodLine:
    plain = {
        "namespace": "default", "name": name, "uid": name, "phase": "Running", "ready": True, "containers_ready": 1,
        "containers": 1, "restarts": 0, "stage": None, "blocked": False, "reason": "", "cause": "",
        "started_at": AT - timedelta(hours=5),
    }  # fmt: skip
    return PodLine(**{**plain, **fields})


HEALTHY = NodeOverview(
    node="node-1",
    version="1.0",
    at=AT,
    started_at=AT - timedelta(days=3),
    ready=True,
    runtime="containerd 2.0",
    api_server="",
    conditions=[ConditionLine(type="Ready", status="True"), ConditionLine(type="DiskPressure", status="False")],
    gauges=[
        GaugeLine(name="memory", used=3 << 30, capacity=4 << 30),
        GaugeLine(name="cpu", used=10**9, capacity=4 * 10**9),
    ],
    pods=[pod("web")],
    pulls=[],
    loops=[LoopLine(name="pleg")],
)
BLOCKED = pod(
    "blocked", ready=False, phase="Pending", containers_ready=0, stage=Stage.PULL, blocked=True, reason="ErrImagePull",
    cause="main: " + "no such image " * 20,
)  # fmt: skip


@pytest.fixture
def agent(monkeypatch):
    """Results of a fake agent, in order; the last one is returned forever."""
    results = [HEALTHY]

    def query(root, name, arguments, into):
        assert (name, into) == ("status", NodeOverview)
        result = results.pop(0) if len(results) > 1 else results[0]
        if isinstance(result, BaseException):
            raise result
        return result

    monkeypatch.setattr(local_client, "query", query)
    return results


def rendered(overview: NodeOverview, width: int = 0, height: int = 0) -> list[str]:
    return status.render(overview, width, height).plain.split("\n")


def test_memory_of_the_agent_and_of_its_largest_plugins_is_shown():
    costs = [PluginCostLine(f"p{number}", 0.25, memory_bytes=(9 - number) << 20) for number in range(6)]

    lines = rendered(msgspec.structs.replace(HEALTHY, memory_bytes=66 << 20, plugin_costs=costs))

    assert lines[-1].startswith("agent 66.0 MiB; loading of plugins: p0 9.0 MiB 0.25 s, p1 8.0 MiB 0.25 s, ")
    assert "p5" not in lines[-1]
    assert not any("loading of plugins" in line for line in rendered(HEALTHY))


def test_piped_output_is_plain_text(agent, capsys):
    assert main(["status"]) == 0

    output = capsys.readouterr().out
    assert "\x1b" not in output
    assert output.splitlines()[0] == "node-1 Ready  2024-01-01 03:00:00Z  nodeagent 1.0, up 3d  containerd 2.0"
    assert "memory         [########..]  75% of 4 GiB" in output
    assert "default/web 1/1 0 5h Ready" in " ".join(output.split())
    assert "no pressure, all conditions healthy" in output
    assert "1 loops healthy" in output


def test_json_output_is_the_overview(agent, capsys):
    assert main(["status", "-o", "json"]) == 0

    assert json.loads(capsys.readouterr().out)["pods"][0]["name"] == "web"


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"ready": False}, "NotReady"),
        ({"api_server": "timed out"}, "API server: timed out"),
        ({"pods": [BLOCKED]}, "pull     ErrImagePull main: no such image"),
        ({"loops": [LoopLine(name="pleg", problem="last seen active 200s ago")]}, "loop pleg: last seen active"),
        ({"loops": [LoopLine(name="plugin shelf", problem="fails in x")]}, "\nplugin shelf: fails in x"),
        (
            {"conditions": [ConditionLine(type="DiskPressure", status="True", reason="R", message="m")]},
            "DiskPressure=True",
        ),
    ],
)
def test_problem_is_printed_with_exit_code_1(agent, capsys, changes, text):
    agent[:] = [msgspec.structs.replace(HEALTHY, **changes)]

    assert main(["status"]) == 1
    assert text in capsys.readouterr().out


@pytest.mark.parametrize(
    ("fields", "state"), [({}, "pulling"), ({"waits": True}, "queued"), ({"asks": True}, "resolving credentials")]
)
def test_pull_is_listed_with_its_state(fields, state):
    pull = PullLine(image="docker.io/library/big:1", pods=["default/web"], seconds=12.6, **fields)

    assert f"pull docker.io/library/big:1 {state} 13 s for default/web" in rendered(
        msgspec.structs.replace(HEALTHY, pulls=[pull])
    )


def test_crowded_view_fits_80_by_24_with_blocked_pods():
    pods = [BLOCKED, *(pod(f"a-pod-with-quite-a-long-name-number-{number:03}") for number in range(100))]
    crowded = msgspec.structs.replace(HEALTHY, pods=pods)

    lines = rendered(crowded, 80, 24)

    assert len(lines) == 24
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith("node-1 Ready")
    assert any(line.startswith("default/blocked") and "pull" in line for line in lines)
    assert "… and " in lines[-2]
    assert lines[-1] == "1 loops healthy"


def test_cause_is_on_a_separate_line_and_gauges_fit_in_80_columns():
    gauges = [
        GaugeLine(name="nodefs inodes", used=900_000, capacity=16_777_216),
        GaugeLine(name="imagefs inodes", used=900_000, capacity=16_777_216),
        GaugeLine(name="nodefs", used=200 << 30, capacity=252 << 30),
        GaugeLine(name="memory", used=23 << 30, capacity=1003 << 30),
    ]
    lines = rendered(msgspec.structs.replace(HEALTHY, gauges=gauges, pods=[pod("web"), BLOCKED]), 80, 24)

    assert max(map(len, lines)) <= 80
    row = next(index for index, line in enumerate(lines) if line.startswith("default/blocked"))
    assert lines[row].endswith("pull     ErrImagePull")
    assert lines[row + 1].startswith("  main: no such image no such image")
    assert lines[row + 2].startswith("default/web")
    assert lines[2].endswith("of 16777216") and lines[2].count("of 16777216") == 2
    assert lines[3].endswith("of 0.98 TiB")


def test_every_pod_has_a_line_without_space_for_causes():
    pods = [msgspec.structs.replace(BLOCKED, name=f"blocked-{number:02}") for number in range(18)]
    lines = rendered(msgspec.structs.replace(HEALTHY, pods=pods), 80, 24)

    assert [line for line in lines if "more" in line] == []
    assert sum(line.startswith("default/blocked-") for line in lines) == 18
    assert sum(line.startswith("  main:") for line in lines) == 24 - 5 - 18


def test_blocked_pods_are_listed_first_on_a_screen():
    pods = [*(pod(f"healthy-{number:02}") for number in range(40)), BLOCKED]
    lines = rendered(msgspec.structs.replace(HEALTHY, pods=pods), 80, 24)

    assert lines[4].startswith("default/blocked")


@pytest.mark.parametrize("no_color", [True, False])
def test_no_color_variable_disables_colors(monkeypatch, no_color):
    if no_color:
        monkeypatch.setenv("NO_COLOR", "1")
    else:
        monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    output = io.StringIO()
    console = Console(file=output, force_terminal=True, width=80)

    console.print(status.render(HEALTHY, 80))

    assert ("\x1b[1;32m" in output.getvalue()) != no_color


def test_watch_runs_until_the_agent_is_unreachable(agent, monkeypatch, capsys):
    agent[:] = [
        HEALTHY,
        msgspec.structs.replace(HEALTHY, node="node-2"),
        local_client.AgentUnreachable("it has stopped"),
    ]
    monkeypatch.setattr(status.time, "sleep", lambda seconds: None)

    assert main(["status", "--watch"]) == 3

    output = capsys.readouterr()
    assert "node-1 Ready" in output.out and "node-2 Ready" in output.out
    assert "it has stopped" in output.err


def test_watch_stops_on_interrupt(agent, monkeypatch):
    def interrupted(seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(status.time, "sleep", interrupted)

    assert main(["status", "--watch", "--interval", "5"]) == 0


@pytest.mark.parametrize(
    ("name", "capacity", "text"),
    [
        ("cpu", 4 * 10**9, "4 cores"),
        ("pids", 4096, "4096"),
        ("nodefs.inodes", 4096, "4096"),
        ("memory", 999, "999 B"),
        ("memory", 1000, "0.98 KiB"),
        ("memory", 1 << 10, "1 KiB"),
        ("memory", 4 << 30, "4 GiB"),
        ("memory", 1000 << 20, "0.98 GiB"),
    ],
)
def test_capacity_has_at_most_three_digits(name, capacity, text):
    gauges = [GaugeLine(name=name, used=0, capacity=capacity)]

    lines = rendered(msgspec.structs.replace(HEALTHY, gauges=gauges))

    assert any(f" {text}" in line for line in lines), lines


@pytest.mark.parametrize(
    ("used", "color"), [(75, "green"), (76, "yellow"), (90, "yellow"), (91, "red"), (150, "red"), (0, "green")]
)
def test_color_of_a_gauge_follows_its_share(used, color):
    gauges = [GaugeLine(name="pids", used=used, capacity=100)]
    output = io.StringIO()
    console = Console(file=output, force_terminal=True, color_system="standard", width=80)

    console.print(*status._gauges(gauges, 80))

    codes = {"green": "\x1b[32m", "yellow": "\x1b[33m", "red": "\x1b[31m"}
    assert {name for name, code in codes.items() if code in output.getvalue()} == {color}
