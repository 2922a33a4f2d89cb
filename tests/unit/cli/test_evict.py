"""``nodeagent evict plan`` asks the running agent and shows its answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nodeagent.cli import local
from nodeagent.cli.main import main
from nodeagent.contracts.eviction import (
    PLAN_QUERY,
    EvictionOutcome,
    EvictionPlan,
    PlannedPod,
    PlannedThreshold,
    PlanRequest,
)
from nodeagent.errors import NodeAgentError

GI = 1 << 30
THRESHOLDS = [
    PlannedThreshold(
        signal="memory.available", hard=True, limit="1Gi", quantity=GI, available=900 << 20, met=True, due_in_seconds=0
    ),
    PlannedThreshold(
        signal="nodefs.available", hard=False, limit="10%", available=9 * GI + 5, met=True, due_in_seconds=12.3
    ),
    PlannedThreshold(signal="pid.available", hard=True, limit="1k", available=30000, minimum_reclaim="5"),
    PlannedThreshold(signal="imagefs.available", hard=True, limit="15%"),
]
PLAN = EvictionPlan(
    node="node-1",
    conditions=["MemoryPressure"],
    thresholds=THRESHOLDS,
    signal="memory.available",
    ranked_for="memory.available",
    pods=[
        PlannedPod(namespace="default", name="web", uid="u", verdict=EvictionOutcome.EVICT, why="uses 3Gi"),
        PlannedPod(
            namespace="default", name="db", uid="v", verdict=EvictionOutcome.SPARED, why="precious", plugin="keeper"
        ),
    ],
)

Run = Callable[..., tuple[int, str, str]]


class Agent:
    """Answers in the place of a running one."""

    def __init__(self) -> None:
        self.answer: EvictionPlan | NodeAgentError = PLAN
        self.asked: list[tuple[Path, PlanRequest]] = []

    def ask(self, root: Path, question: str, arguments: PlanRequest, into: type[EvictionPlan]) -> EvictionPlan:
        assert (question, into) == (PLAN_QUERY, EvictionPlan)
        self.asked.append((root, arguments))
        if isinstance(self.answer, NodeAgentError):
            raise self.answer
        return self.answer


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch) -> Agent:
    agent = Agent()
    monkeypatch.setattr(local, "ask", agent.ask)
    monkeypatch.setenv("COLUMNS", "200")
    return agent


@pytest.fixture
def run(agent: Agent, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(["evict", "plan", *arguments])
        output = capsys.readouterr()
        return code, output.out, output.err

    return run


def lines(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


def test_the_plan_is_a_table(run: Run, agent: Agent):
    code, output, _ = run("--root-dir", "/agent")

    assert code == 0
    assert agent.asked == [(Path("/agent"), PlanRequest())]
    shown = lines(output)
    assert shown[0] == "node-1: MemoryPressure"
    assert "memory.available<1Gi hard 900Mi met" in shown
    assert "nodefs.available<10% soft 9Gi met, acts in 12 s" in shown
    assert "pid.available<1k (+5 to resolve) hard 30000 fine" in shown
    assert "imagefs.available<15% hard not measured" in shown
    assert "evict default/web uses 3Gi" in shown
    assert "spared default/db precious (plugin keeper)" in shown


def test_the_plan_is_data(run: Run):
    code, output, _ = run("-o", "json")

    plan: dict[str, Any] = json.loads(output)
    assert code == 0
    assert plan["signal"] == "memory.available"
    assert plan["pods"][1] == {
        "namespace": "default", "name": "db", "uid": "v", "verdict": "spared", "why": "precious", "plugin": "keeper",
    }  # fmt: skip


def test_without_pressure_the_order_is_shown(run: Run, agent: Agent):
    agent.answer = EvictionPlan(node="node-1", conditions=[], thresholds=[], ranked_for="pid.available")

    _, output, _ = run("--signal", "pid.available")

    assert agent.asked[0][1] == PlanRequest(signal="pid.available")
    assert "node-1: no pressure" in output
    assert "Nothing is evicted for a threshold now. For pid.available the order would be:" in output
    assert "no pods" in output


def test_a_new_configuration_is_judged(run: Run, agent: Agent, tmp_path: Path):
    file = tmp_path / "new.yaml"
    file.write_text(
        "apiVersion: nodeagent.config.k8s.io/v1beta1\nkind: NodeAgentConfiguration\n"
        "containerRuntimeEndpoint: unix:///r.sock\n"
        "evictionHard: {memory.available: 5%}\nevictionSoft: {nodefs.available: 20%}\n"
        "evictionSoftGracePeriod: {nodefs.available: 1m}\nevictionMinimumReclaim: {nodefs.available: 1Gi}\n"
    )

    code, _, _ = run("--config", str(file))

    (_, request) = agent.asked[0]
    assert code == 0
    assert request.thresholds is not None
    assert request.thresholds.hard == {"memory.available": "5%"}
    assert request.thresholds.soft == {"nodefs.available": "20%"}
    assert request.thresholds.soft_grace == {"nodefs.available": "1m"}
    assert request.thresholds.minimum_reclaim == {"nodefs.available": "1Gi"}


def test_a_wrong_configuration_is_refused_before_anybody_is_asked(run: Run, agent: Agent, tmp_path: Path):
    file = tmp_path / "new.yaml"
    file.write_text(
        "apiVersion: nodeagent.config.k8s.io/v1beta1\nkind: NodeAgentConfiguration\n"
        "evictionHard: {memory.available: 500%}\n"
    )

    code, _, error = run("--config", str(file))

    assert (code, agent.asked) == (2, [])
    assert "evictionHard[memory.available]" in error


@pytest.mark.parametrize(
    ("answer", "code", "text"),
    [
        (local.NoAgent("no agent answers at"), 3, "no agent answers at"),
        (local.NotAnswered("the runtime did not answer"), 1, "no plan: the runtime did not answer"),
    ],
)
def test_no_plan_says_why(run: Run, agent: Agent, answer: NodeAgentError, code: int, text: str):
    agent.answer = answer

    found, _, error = run()

    assert found == code
    assert text in error
