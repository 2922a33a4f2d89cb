"""Tests for ``nodeagent why``: query to the agent, output and exit codes."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from nodeagent import local_client
from nodeagent.cli.main import main
from nodeagent.cli.why import lines
from nodeagent.contracts.diagnostics import PodEvent, PodExplanation, Stage, StageReport, StageState, WhyRequest

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
