"""Tests for ``nodeagent status``: rendering for terminals and pipes, exit codes, ``--watch``."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, timedelta
from functools import partial

import msgspec
import pytest
from rich.console import Console

from nodeagent import local_client
from nodeagent.cli import status
from nodeagent.cli.main import main
from nodeagent.contracts.diagnostics import (
    ConditionLine,
    DeviceResourceLine,
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
        ("nodefs", 999 << 40, "999 TiB"),
        ("nodefs", 1000 << 40, "0.98 PiB"),
        ("nodefs", 2000 << 60, "2e+03 EiB"),
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


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "0s"), (119, "119s"), (120, "2m"), (7199, "119m"), (7200, "2h"), (172799, "47h"), (172800, "2d")],
)
def test_age_is_in_the_largest_unit_of_which_there_are_two(seconds, text):
    overview = msgspec.structs.replace(HEALTHY, started_at=AT - timedelta(seconds=seconds))

    assert f", up {text}  " in rendered(overview)[0]


def test_widths_depend_on_the_screen():
    overview = msgspec.structs.replace(HEALTHY, pods=[pod("a-name-of-32-characters-and-more")])
    unlimited, wide, narrow = ("\n".join(rendered(overview, width, 24 if width else 0)) for width in (0, 100, 99))

    for text in (unlimited, wide):
        assert "\ndefault/a-name-of-32-characters-and-more   1/1" in text
        assert "[########..]" in text
    assert "\ndefault/a-name-of-32-characte…   1/1" in narrow
    assert "[####.]" in narrow


@pytest.mark.parametrize(("width", "separate"), [(103, False), (102, True), (0, False)])
def test_cause_has_a_separate_line_if_the_row_is_too_narrow(width, separate):
    overview = msgspec.structs.replace(HEALTHY, pods=[pod("a" * 23, cause="in progress")])  # A name of 31 columns.

    lines = rendered(overview, width, 24 if width else 0)

    assert ("  in progress" in lines) == separate


def test_table_fits_exactly_or_counts_the_other_pods():
    fixed = 5  # Two lines of the header, the gauges, the heading of the table and the loops.
    pods = [pod(f"p{number}") for number in range(4)]
    overview = msgspec.structs.replace(HEALTHY, pods=pods)

    assert [line for line in rendered(overview, 120, fixed + 4) if "more" in line] == []
    assert "… and 2 more" in rendered(overview, 120, fixed + 3)


def test_stage_is_readiness_or_phase_without_a_stage_in_progress():
    pods = [pod("a", ready=False, phase="Succeeded"), pod("b"), pod("c", stage=Stage.PULL, started_at=None)]

    rows = {line.split()[0]: line.split()[3:] for line in rendered(msgspec.structs.replace(HEALTHY, pods=pods))[4:7]}

    assert rows == {"default/a": ["5h", "Succeeded"], "default/b": ["5h", "Ready"], "default/c": ["pull"]}


def test_reason_is_listed_only_for_blocked_pods():
    waiting = pod("waiting", ready=False, stage=Stage.PULL, reason="Pulling", cause="main: 3 s")
    overview = msgspec.structs.replace(HEALTHY, pods=[waiting])

    assert "main: 3 s" in rendered(overview)[4]
    assert "Pulling" not in rendered(overview)[4]


def test_release_and_missing_runtime_are_in_the_first_line():
    assert rendered(msgspec.structs.replace(HEALTHY, release="1.34", runtime=""))[0].endswith(
        "  no runtime  release 1.34"
    )


@pytest.mark.parametrize(
    ("arguments", "code"), [([], 2), (["-o", "json"], 0), (["--watch", "-o", "json"], 2), (["--watch"], 2)]
)
def test_text_requires_the_packages_of_the_command(agent, monkeypatch, capsys, arguments, code):
    monkeypatch.setattr(status, "missing_extra", lambda command, extra: f"{command} requires {extra}")

    assert main(["status", *arguments]) == code
    assert ("nodeagent status requires cli" in capsys.readouterr().err) == (code == 2)


def test_watched_json_has_one_line_per_refresh(agent, monkeypatch, capsys):
    agent[:] = [HEALTHY, msgspec.structs.replace(HEALTHY, node="node-2"), local_client.AgentRequestFailed("busy")]
    monkeypatch.setattr(status.time, "sleep", lambda seconds: None)

    assert main(["status", "--watch", "-o", "json"]) == 1

    output = capsys.readouterr()
    assert [json.loads(line)["node"] for line in output.out.splitlines()] == ["node-1", "node-2"]
    assert "busy" in output.err


@pytest.mark.parametrize(
    ("interval", "valid"), [("0.2", True), ("3600", True), ("0.1", False), ("3601", False), ("nan", False)]
)
def test_interval_is_limited(agent, monkeypatch, interval, valid):
    def interrupted(seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(status.time, "sleep", interrupted)
    if valid:
        assert main(["status", "--watch", "--interval", interval]) == 0
    else:
        with pytest.raises(SystemExit):
            main(["status", "--watch", "--interval", interval])


@pytest.mark.parametrize(
    "conditions",
    [
        [ConditionLine(type="Ready", status="Unknown", reason="R", message="m")],
        [ConditionLine(type="MemoryPressure", status="Unknown", reason="R", message="m")],
    ],
)
def test_unknown_condition_is_a_problem(agent, conditions, capsys):
    agent[:] = [msgspec.structs.replace(HEALTHY, conditions=conditions)]

    assert main(["status"]) == 1
    assert f"{conditions[0].type}=Unknown R: m" in capsys.readouterr().out


def test_devices_are_listed_with_their_problem():
    lines = [
        DeviceResourceLine(name="a.io/x", capacity=2, healthy=1, allocated=1, problem=problem)
        for problem in ("", "not registered")
    ]

    assert rendered(msgspec.structs.replace(HEALTHY, devices=lines))[5:7] == [
        "devices a.io/x: 1 of 2 allocated, 1 healthy",
        "devices a.io/x: 1 of 2 allocated, 1 healthy, not registered",
    ]


@pytest.mark.parametrize("output", ["text", "json"])
def test_watch_uses_the_screen_of_a_terminal_for_text(agent, monkeypatch, capsys, output):
    screen = io.StringIO()
    options = {"file": screen, "force_terminal": True, "width": 80, "height": 24}
    monkeypatch.setattr("rich.console.Console", partial(Console, **options))

    def interrupted(seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(status.time, "sleep", interrupted)

    assert main(["status", "--watch", "-o", output]) == 0
    assert ("\x1b[?1049h" in screen.getvalue()) == (output == "text")
    assert ("node-1" in screen.getvalue()) == (output == "text")
    assert ('"node": "node-1"' in capsys.readouterr().out) == (output == "json")


@pytest.mark.parametrize(
    ("fields", "color"),
    [
        ({"ready": False, "blocked": True, "stage": Stage.PULL}, "\x1b[31m"),
        ({"ready": True}, "\x1b[32m"),
        ({"ready": False, "stage": Stage.PULL}, "\x1b[33m"),
        ({"ready": False, "phase": "Succeeded"}, ""),
    ],
)
def test_color_of_a_pod_follows_its_stage(fields, color):
    output = io.StringIO()
    console = Console(file=output, force_terminal=True, color_system="standard", width=120)

    console.print(status._pods(msgspec.structs.replace(HEALTHY, pods=[pod("web", **fields)]), 120, 5)[1])

    assert {code for code in ("\x1b[31m", "\x1b[32m", "\x1b[33m") if code in output.getvalue()} == ({color} - {""})
