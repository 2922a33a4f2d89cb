"""``nodeagent status`` shows the node at a glance, in any terminal and without one."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from rich.console import Console

from nodeagent.cli import local, status
from nodeagent.cli.main import main
from nodeagent.contracts.diagnostics import ConditionLine, GaugeLine, LoopLine, NodeOverview, PodLine, PullLine, Stage

AT = datetime(2024, 1, 1, 3, 0, tzinfo=UTC)


def pod(name: str, **fields) -> PodLine:
    plain = {
        "namespace": "default", "name": name, "uid": name, "phase": "Running", "ready": True, "containers_ready": 1,
        "containers": 1, "restarts": 0, "stage": None, "blocked": False, "reason": "", "cause": "",
        "started_at": AT - timedelta(hours=5),
    }  # fmt: skip
    return PodLine(**{**plain, **fields})


WELL = NodeOverview(
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
HELD = pod(
    "held", ready=False, phase="Pending", containers_ready=0, stage=Stage.PULL, blocked=True, reason="ErrImagePull",
    cause="main: " + "no such image " * 20,
)  # fmt: skip


@pytest.fixture
def agent(monkeypatch):
    """Answers with what its list holds, the last for ever."""
    answers = [WELL]

    def ask(root, question, arguments, into):
        assert (question, into) == ("status", NodeOverview)
        found = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(found, BaseException):
            raise found
        return found

    monkeypatch.setattr(local, "ask", ask)
    return answers


def shown(found: NodeOverview, width: int = 0, height: int = 0) -> list[str]:
    return status.render(found, width, height).plain.split("\n")


def test_the_node_is_shown_in_plain_text_when_piped(agent, capsys):
    assert main(["status"]) == 0

    output = capsys.readouterr().out
    assert "\x1b" not in output
    assert output.splitlines()[0] == "node-1 Ready  2024-01-01 03:00:00Z  nodeagent 1.0, up 3d  containerd 2.0"
    assert "memory         [########..]  75% of 4 GiB" in output
    assert "default/web 1/1 0 5h serves" in " ".join(output.split())
    assert "1 loops do well" in output


def test_the_answer_is_data(agent, capsys):
    assert main(["status", "-o", "json"]) == 0

    assert json.loads(capsys.readouterr().out)["pods"][0]["name"] == "web"


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"ready": False}, "NotReady"),
        ({"api_server": "no answer in time"}, "API server: no answer in time"),
        ({"pods": [HELD]}, "pull     ErrImagePull main: no such image"),
        ({"loops": [LoopLine(name="pleg", problem="last seen active 200s ago")]}, "loop pleg: last seen active"),
        (
            {"conditions": [ConditionLine(type="DiskPressure", status="True", reason="R", message="m")]},
            "DiskPressure=True",
        ),
    ],
)
def test_what_is_wrong_is_shown_and_told_by_the_exit_code(agent, capsys, changes, text):
    agent[:] = [msgspec.structs.replace(WELL, **changes)]

    assert main(["status"]) == 1
    assert text in capsys.readouterr().out


def test_a_pull_under_way_is_shown():
    pull = PullLine(image="docker.io/library/big:1", pods=["default/web"], seconds=12.6, waits=True)

    assert "pull docker.io/library/big:1 waits 13 s for default/web" in shown(
        msgspec.structs.replace(WELL, pulls=[pull])
    )


def test_a_pull_whose_credentials_are_asked_for_is_shown():
    pull = PullLine(image="docker.io/library/big:1", pods=["default/web"], seconds=12.6, asks=True)

    assert "pull docker.io/library/big:1 asks for credentials 13 s for default/web" in shown(
        msgspec.structs.replace(WELL, pulls=[pull])
    )


def test_a_terminal_of_80_by_24_shows_everything_that_matters():
    pods = [HELD, *(pod(f"a-pod-with-quite-a-long-name-number-{number:03}") for number in range(100))]
    crowded = msgspec.structs.replace(WELL, pods=pods)

    lines = shown(crowded, 80, 24)

    assert len(lines) == 24
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith("node-1 Ready")
    assert any(line.startswith("default/held") and "pull" in line for line in lines)
    assert "… and " in lines[-2]
    assert lines[-1] == "1 loops do well"


def test_in_80_columns_a_cause_has_a_line_of_its_own_and_no_gauge_is_cut():
    gauges = [
        GaugeLine(name="nodefs inodes", used=900_000, capacity=16_777_216),
        GaugeLine(name="imagefs inodes", used=900_000, capacity=16_777_216),
        GaugeLine(name="nodefs", used=200 << 30, capacity=252 << 30),
        GaugeLine(name="memory", used=23 << 30, capacity=1003 << 30),
    ]
    lines = shown(msgspec.structs.replace(WELL, gauges=gauges, pods=[pod("web"), HELD]), 80, 24)

    assert max(map(len, lines)) <= 80
    row = next(index for index, line in enumerate(lines) if line.startswith("default/held"))
    assert lines[row].endswith("pull     ErrImagePull")
    assert lines[row + 1].startswith("  main: no such image no such image")
    assert lines[row + 2].startswith("default/web")
    assert lines[2].endswith("of 16777216") and lines[2].count("of 16777216") == 2
    assert lines[3].endswith("of 0.98 TiB")


def test_without_room_for_causes_every_pod_still_has_its_line():
    pods = [msgspec.structs.replace(HELD, name=f"held-{number:02}") for number in range(18)]
    lines = shown(msgspec.structs.replace(WELL, pods=pods), 80, 24)

    assert [line for line in lines if "more" in line] == []
    assert sum(line.startswith("default/held-") for line in lines) == 18
    assert sum(line.startswith("  main:") for line in lines) == 24 - 5 - 18


def test_pods_that_are_held_up_come_first_on_a_screen():
    pods = [*(pod(f"well-{number:02}") for number in range(40)), HELD]
    lines = shown(msgspec.structs.replace(WELL, pods=pods), 80, 24)

    assert lines[4].startswith("default/held")


@pytest.mark.parametrize("no_color", [True, False])
def test_colours_are_left_out_when_the_user_says_so(monkeypatch, no_color):
    if no_color:
        monkeypatch.setenv("NO_COLOR", "1")
    else:
        monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    output = io.StringIO()
    console = Console(file=output, force_terminal=True, width=80)

    console.print(status.render(WELL, 80))

    assert ("\x1b[1;32m" in output.getvalue()) != no_color


def test_watching_goes_on_until_the_agent_is_gone(agent, monkeypatch, capsys):
    agent[:] = [WELL, msgspec.structs.replace(WELL, node="node-2"), local.NoAgent("it went away")]
    monkeypatch.setattr(status.time, "sleep", lambda seconds: None)

    assert main(["status", "--watch"]) == 3

    output = capsys.readouterr()
    assert "node-1 Ready" in output.out and "node-2 Ready" in output.out
    assert "it went away" in output.err


def test_watching_ends_with_an_interrupt(agent, monkeypatch):
    def interrupted(seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(status.time, "sleep", interrupted)

    assert main(["status", "--watch", "--interval", "5"]) == 0
