"""Tests for ``nodeagent evict plan``: query to the agent, table and JSON output, exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nodeagent import local_client
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


class FakeAgent:
    """Fake of the running agent: returns a plan, or raises an error, and records the requests."""

    def __init__(self) -> None:
        self.result: EvictionPlan | NodeAgentError = PLAN
        self.requests: list[tuple[Path, PlanRequest]] = []

    def query(self, root: Path, name: str, arguments: PlanRequest, into: type[EvictionPlan]) -> EvictionPlan:
        assert (name, into) == (PLAN_QUERY, EvictionPlan)
        self.requests.append((root, arguments))
        if isinstance(self.result, NodeAgentError):
            raise self.result
        return self.result


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch) -> FakeAgent:
    agent = FakeAgent()
    monkeypatch.setattr(local_client, "query", agent.query)
    monkeypatch.setenv("COLUMNS", "200")
    return agent


@pytest.fixture
def run(agent: FakeAgent, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(["evict", "plan", *arguments])
        output = capsys.readouterr()
        return code, output.out, output.err

    return run


def lines(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


def test_plan_is_printed_as_table(run: Run, agent: FakeAgent):
    code, output, _ = run("--root-dir", "/agent")

    assert code == 0
    assert agent.requests == [(Path("/agent"), PlanRequest())]
    printed = lines(output)
    assert printed[0] == "node-1: MemoryPressure"
    assert "memory.available<1Gi hard 900Mi met" in printed
    assert "nodefs.available<10% soft 9Gi met, evicts in 12 s" in printed
    assert "pid.available<1k (+5 to resolve) hard 30000 not met" in printed
    assert "imagefs.available<15% hard not measured" in printed
    assert "evict default/web uses 3Gi" in printed
    assert "spared default/db precious (plugin keeper)" in printed


def test_plan_is_printed_as_json(run: Run):
    code, output, _ = run("-o", "json")

    plan: dict[str, Any] = json.loads(output)
    assert code == 0
    assert plan["signal"] == "memory.available"
    assert plan["pods"][1] == {
        "namespace": "default", "name": "db", "uid": "v", "verdict": "spared", "why": "precious", "plugin": "keeper",
    }  # fmt: skip


def test_order_is_printed_without_pressure(run: Run, agent: FakeAgent):
    agent.result = EvictionPlan(node="node-1", conditions=[], thresholds=[], ranked_for="pid.available")

    _, output, _ = run("--signal", "pid.available")

    assert agent.requests[0][1] == PlanRequest(signal="pid.available")
    assert "node-1: no pressure" in output
    assert "No threshold requires an eviction now. Order for pid.available:" in output
    assert "no pods" in output


def test_thresholds_of_another_configuration_are_sent(run: Run, agent: FakeAgent, tmp_path: Path):
    file = tmp_path / "new.yaml"
    file.write_text(
        "apiVersion: nodeagent.config.k8s.io/v1beta1\nkind: NodeAgentConfiguration\n"
        "containerRuntimeEndpoint: unix:///r.sock\n"
        "evictionHard: {memory.available: 5%}\nevictionSoft: {nodefs.available: 20%}\n"
        "evictionSoftGracePeriod: {nodefs.available: 1m}\nevictionMinimumReclaim: {nodefs.available: 1Gi}\n"
    )

    code, _, _ = run("--config", str(file))

    (_, request) = agent.requests[0]
    assert code == 0
    assert request.thresholds is not None
    assert request.thresholds.hard == {"memory.available": "5%"}
    assert request.thresholds.soft == {"nodefs.available": "20%"}
    assert request.thresholds.soft_grace == {"nodefs.available": "1m"}
    assert request.thresholds.minimum_reclaim == {"nodefs.available": "1Gi"}


def test_invalid_configuration_is_rejected_before_the_query(run: Run, agent: FakeAgent, tmp_path: Path):
    file = tmp_path / "new.yaml"
    file.write_text(
        "apiVersion: nodeagent.config.k8s.io/v1beta1\nkind: NodeAgentConfiguration\n"
        "evictionHard: {memory.available: 500%}\n"
    )

    code, _, error = run("--config", str(file))

    assert (code, agent.requests) == (2, [])
    assert "evictionHard[memory.available]" in error


@pytest.mark.parametrize(
    ("failure", "code", "text"),
    [
        (local_client.AgentUnreachable("no agent is listening"), 3, "no agent is listening"),
        (local_client.AgentRequestFailed("timed out"), 1, "failed to get the eviction plan: timed out"),
    ],
)
def test_failed_query_prints_the_error(run: Run, agent: FakeAgent, failure: NodeAgentError, code: int, text: str):
    agent.result = failure

    exit_code, _, error = run()

    assert exit_code == code
    assert text in error


def test_pods_above_their_limits_and_reclaimed_disk_are_printed_first(run: Run, agent: FakeAgent):
    pod = PlannedPod(namespace="a", name="big", uid="b", verdict=EvictionOutcome.EVICT, why="uses 2Gi of 1Gi")
    agent.result = EvictionPlan(
        node="node-1",
        conditions=[],
        thresholds=[
            PlannedThreshold(signal="nodefs.inodesFree", hard=True, limit="5%", available=1 << 21),
            PlannedThreshold(signal="memory.available", hard=True, limit="1Gi", available=(2 << 20) - 1, met=True),
        ],
        signal="nodefs.inodesFree",
        over_limits=[pod],
        reclaims_disk=True,
    )

    _, output, _ = run()

    printed = lines(output)
    assert "nodefs.inodesFree<5% hard 2097152 not met" in printed
    assert "memory.available<1Gi hard 1Mi met" in printed
    first = printed.index("Pods that exceed their local storage limits are evicted first:")
    assert printed[first + 2] == "evict a/big uses 2Gi of 1Gi"
    assert "Unused images and dead containers are removed first, pods only if that is not sufficient." in printed


def test_optional_paragraphs_are_omitted(run: Run, agent: FakeAgent):
    _, output, _ = run()

    assert "local storage" not in output
    assert "Unused images" not in output
