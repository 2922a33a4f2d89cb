"""``nodeagent why`` asks the running agent about a pod and shows what it answers."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from nodeagent.cli import local
from nodeagent.cli.main import main
from nodeagent.cli.why import lines
from nodeagent.contracts.diagnostics import PodEvent, PodExplanation, Stage, StageReport, StageState, WhyRequest

AT = datetime(2024, 1, 1, 3, 0, tzinfo=UTC)
HELD = PodExplanation(
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
            detail="registry answered 401",
            containers=["main"],
        ),
    ],
    blocking=Stage.PULL,
    blocked=True,
    reason="ErrImagePull",
    cause="main: registry answered 401",
    next_try_seconds=14.4,
    remedy="check the pod's credentials",
    events=[PodEvent(type="Warning", reason="Failed", note="Error: ErrImagePull", count=3, first=AT, last=AT)],
)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch):
    """Answers with the pod above; returns the questions."""
    questions = []

    def ask(root, question, arguments, into):
        questions.append((root, question, arguments))
        return HELD

    monkeypatch.setattr(local, "ask", ask)
    return questions


def test_cause_next_try_and_remedy_are_shown(asked, capsys):
    code = main(["why", "pod/shop/web", "--root-dir", "/agent"])

    output = capsys.readouterr().out
    assert code == 1
    assert asked == [(Path("/agent"), "why", WhyRequest(namespace="shop", name="web"))]
    assert " + admit    done     2024-01-01 03:00:00Z" in output
    assert "ErrImagePull, see below" in output
    assert (
        "Blocked at pull: main: registry answered 401\nNext try: in 14 s\nRemedy: check the pod's credentials" in output
    )
    assert "Warning Failed: Error: ErrImagePull (x3 since 03:00:00)" in output


def test_what_is_being_tried_now_has_no_next_try():
    working = msgspec.structs.replace(HELD, blocked=False, next_try_seconds=0.0, remedy="")

    assert not [line for line in lines(working, AT) if line.startswith("Next try")]


def test_the_answer_is_data(asked, capsys):
    assert main(["why", "pod/web", "-o", "json"]) == 1

    found = json.loads(capsys.readouterr().out)
    assert asked[0][2] == WhyRequest(namespace="default", name="web")
    assert (found["blocking"], found["nextTrySeconds"], found["stages"][1]["state"]) == ("pull", 14.4, "blocked")


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [(local.NoAgent("start it"), 3, "start it"), (local.NotAnswered("no source wants the pod"), 1, "no source wants")],
)
def test_without_an_answer_the_reason_is_told(monkeypatch, capsys, error, code, text):
    def ask(*_):
        raise error

    monkeypatch.setattr(local, "ask", ask)

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
def test_a_pod_is_named_as_status_or_kubectl_name_it(subject, namespace, monkeypatch):
    asked = []

    def ask(root, question, arguments, into):
        asked.append((arguments.namespace, arguments.name))
        raise local.NotAnswered("enough")

    monkeypatch.setattr(local, "ask", ask)
    main(["why", subject])

    assert asked == [(namespace, "web")]


@pytest.mark.parametrize("subject", ["a/b/c", "pod/a/b/c", "pod/", "/web", ""])
def test_what_is_no_pod_is_refused(subject, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["why", subject])

    assert ended.value.code == 2
    assert "is not pod/NAMESPACE/NAME" in capsys.readouterr().err
