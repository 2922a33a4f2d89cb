"""Tests for ``nodeagent why``: query to the agent, output and exit codes."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from nodeagent import local_client
from nodeagent.cli.main import main
from nodeagent.cli.why import lines
from nodeagent.contracts.diagnostics import (
    PodDeviceLine,
    PodEvent,
    PodExplanation,
    Stage,
    StageReport,
    StageState,
    WhyRequest,
)
from nodeagent.contracts.plugin_report import DecisionLine

AT = datetime(2024, 1, 1, 3, 0, tzinfo=UTC)
BLOCKED = PodExplanation(
    namespace="shop",
    name="web",
    uid="u",
    source="api",
    phase="Pending",
    ready=False,
    stages=[
        StageReport(stage=Stage.ADMIT, state=StageState.DONE, at=AT),
        StageReport(
            stage=Stage.PULL,
            state=StageState.BLOCKED,
            reason="ErrImagePull",
            detail="registry returned 401",
            containers=["main"],
        ),
    ],
    blocking=Stage.PULL,
    blocked=True,
    reason="ErrImagePull",
    cause="main: registry returned 401",
    next_try_seconds=14.4,
    remedy="check the pod's credentials",
    events=[PodEvent(type="Warning", reason="Failed", note="Error: ErrImagePull", count=3, first=AT, last=AT)],
)


@pytest.fixture
def queries(monkeypatch: pytest.MonkeyPatch):
    """The queries to a fake agent, which returns the pod above."""
    queries = []

    def query(root, name, arguments, into):
        queries.append((root, name, arguments))
        return BLOCKED

    monkeypatch.setattr(local_client, "query", query)
    return queries


def test_cause_next_retry_and_remedy_are_printed(queries, capsys):
    code = main(["why", "pod/shop/web", "--root-dir", "/agent"])

    output = capsys.readouterr().out
    assert code == 1
    assert queries == [(Path("/agent"), "why", WhyRequest(namespace="shop", name="web"))]
    assert " + admit    done     2024-01-01 03:00:00Z" in output
    assert "ErrImagePull, see below" in output
    assert (
        "Blocked at pull: main: registry returned 401\nNext retry: in 14 s\nRemedy: check the pod's credentials"
        in output
    )
    assert "Warning Failed: Error: ErrImagePull (x3 since 03:00:00)" in output


def test_next_retry_is_omitted_while_in_progress():
    working = msgspec.structs.replace(BLOCKED, blocked=False, next_try_seconds=0.0, remedy="")

    text = lines(working, AT)

    assert "In progress at pull: main: registry returned 401" in text
    assert not [line for line in text if line.startswith("Next retry")]


def test_json_output_is_the_explanation(queries, capsys):
    assert main(["why", "pod/web", "-o", "json"]) == 1

    output = json.loads(capsys.readouterr().out)
    assert queries[0][2] == WhyRequest(namespace="default", name="web")
    assert (output["blocking"], output["nextTrySeconds"], output["stages"][1]["state"]) == ("pull", 14.4, "blocked")


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (local_client.AgentUnreachable("start it"), 3, "start it"),
        (local_client.AgentRequestFailed("the pod is not assigned"), 1, "is not assigned"),
    ],
)
def test_failed_query_prints_the_error(monkeypatch, capsys, error, code, text):
    def query(*_):
        raise error

    monkeypatch.setattr(local_client, "query", query)

    assert main(["why", "pod/shop/web"]) == code
    assert text in capsys.readouterr().err


@pytest.mark.parametrize(
    ("subject", "namespace"),
    [
        ("web", "default"),
        ("pod/web", "default"),
        ("shop/web", "shop"),
        ("pod/shop/web", "shop"),
        ("po/shop/web", "shop"),
        ("pods/shop/web", "shop"),
    ],
)
def test_pod_names_of_status_and_kubectl_are_accepted(subject, namespace, monkeypatch):
    pods = []

    def query(root, name, arguments, into):
        pods.append((arguments.namespace, arguments.name))
        raise local_client.AgentRequestFailed("not relevant here")

    monkeypatch.setattr(local_client, "query", query)
    main(["why", subject])

    assert pods == [(namespace, "web")]


@pytest.mark.parametrize("subject", ["a/b/c", "pod/a/b/c", "pod/", "/web", ""])
def test_invalid_pod_name_exits_with_2(subject, capsys):
    with pytest.raises(SystemExit) as exited:
        main(["why", subject])

    assert exited.value.code == 2
    assert "must be pod/NAMESPACE/NAME" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("blocked", "seconds", "text"),
    [
        (True, 14.4, "Next retry: in 14 s"),
        (True, 1.0, "Next retry: in 1 s"),
        (True, 0.4, "Next retry: now"),
        (True, None, None),
        (False, 14.4, "Next retry: in 14 s"),
        (False, 1.0, "Next retry: in 1 s"),
        (False, 0.4, None),
    ],
)
def test_next_retry_of_a_stage_in_progress_is_shown_if_it_is_not_now(blocked, seconds, text):
    pod = msgspec.structs.replace(BLOCKED, blocked=blocked, next_try_seconds=seconds)

    assert [line for line in lines(pod, AT) if line.startswith("Next retry")] == ([text] if text else [])


def test_only_the_blocking_stage_refers_to_the_cause_below():
    assert [line.endswith("see below") for line in lines(BLOCKED, AT)[2:4]] == [False, True]
    working = msgspec.structs.replace(BLOCKED, blocked=False)
    assert not any(line.endswith("see below") for line in lines(working, AT))


@pytest.mark.parametrize(
    ("seconds", "text"), [(-1, "0s"), (119, "119s"), (120, "2m"), (7199, "119m"), (7200, "2h"), (86400, "24h")]
)
@pytest.mark.parametrize("count", [1, 2])
def test_events_and_decisions_have_an_age_and_a_count_of_repetitions(seconds, text, count):
    last = AT - timedelta(seconds=seconds)
    first = last - timedelta(seconds=count - 1)
    event = PodEvent(type="Normal", reason="Pulled", note="done", count=count, first=first, last=last)
    decision = DecisionLine("limit", "nodeagent_admit_pod", "web", "admitted", first, last, count)

    printed = lines(msgspec.structs.replace(BLOCKED, events=[event], decisions=[decision]), AT)

    times = "" if count == 1 else f" (x2 since {first:%H:%M:%S})"
    assert printed[-1] == f"  {text:>5}  Normal  Pulled: done{times}"
    assert printed[-4] == f"  {text:>5}  limit (admit_pod): admitted{times}"


def test_lists_without_entries_have_no_heading():
    printed = lines(msgspec.structs.replace(BLOCKED, events=[]), AT)

    assert not any(line.startswith(("Events", "Decisions", "Devices")) for line in printed)


def test_devices_are_listed_with_their_health():
    devices = [
        PodDeviceLine("main", "a.io/x", "x0", "Healthy"),
        PodDeviceLine("main", "a.io/x", "x1", "Unhealthy", "overheated"),
    ]

    printed = lines(msgspec.structs.replace(BLOCKED, devices=devices, events=[]), AT)

    assert printed[-3:] == ["Devices:", "  main: a.io/x x0 Healthy", "  main: a.io/x x1 Unhealthy: overheated"]


def test_reason_of_a_stage_is_printed_only_if_it_is_blocked():
    stages = [
        StageReport(stage=stage, state=state, reason="R", detail="text", containers=["a", "b"])
        for stage, state in ((Stage.PULL, StageState.BLOCKED), (Stage.READY, StageState.WORKING))
    ]

    printed = lines(msgspec.structs.replace(BLOCKED, stages=stages, blocking=Stage.ADMIT), AT)

    assert printed[2].endswith(" R: a, b: text")
    assert printed[3].endswith(" a, b: text") and " R: " not in printed[3]


@pytest.mark.parametrize(
    ("fields", "code", "state"),
    [
        ({"ready": True, "phase": "Running", "blocking": None}, 0, "is Ready; phase Running"),
        ({"phase": "Succeeded", "blocking": None}, 0, "has terminated (Succeeded); phase Succeeded"),
        ({"phase": "Failed", "blocking": None}, 1, "has terminated (Failed); phase Failed"),
        ({"plugin": "limit"}, 1, "is not Ready; phase Pending"),
    ],
)
def test_state_of_the_pod_determines_the_exit_code(monkeypatch, capsys, fields, code, state):
    pod = msgspec.structs.replace(BLOCKED, **fields)
    monkeypatch.setattr(local_client, "query", lambda *_: pod)

    assert main(["why", "web"]) == code

    output = capsys.readouterr().out
    assert f"pod shop/web {state}, from source api\n" in output
    assert ("Blocked at pull (plugin limit): main" in output) == ("plugin" in fields)
    assert ("Remedy" in output) == (pod.blocking is not None)


def test_pod_can_have_the_name_of_its_kind(queries):
    assert main(["why", "pod"]) == 1
    assert queries[0][2] == WhyRequest(namespace="default", name="pod")
