"""Tests for stages of feature gates: notation, stage at a release, description."""

from __future__ import annotations

import pytest

from nodeagent.base.gate_stages import describe_stage, existing_gates, last_gate_of, parse_table, stage_of
from nodeagent.base.gates import Stage
from nodeagent.base.release import Release

TABLE = """
Old     before+ ga+!1.26 removed1.29
Steady  alpha-1.24 beta+1.27 ga+!1.30
Later   alpha-1.31
"""


def test_gates_of_a_release_have_its_stage() -> None:
    life_cycles = parse_table(TABLE)

    def gates(release: str) -> dict[str, tuple[Stage, bool, bool]]:
        found = existing_gates(life_cycles, Release.parse(release))
        return {gate.name: (gate.stage, gate.default, gate.locked) for gate in found}

    assert gates("1.28") == {"Old": (Stage.GA, True, True), "Steady": (Stage.BETA, True, False)}
    assert gates("1.29") == {"Steady": (Stage.BETA, True, False)}
    assert gates("1.31") == {"Steady": (Stage.GA, True, True), "Later": (Stage.ALPHA, False, False)}


@pytest.mark.parametrize(
    ("name", "release", "stage", "gate"),
    [
        ("Later", "1.30", None, None),
        ("Later", "1.31", "1.31", Stage.ALPHA),
        ("Old", "1.29", "1.29", Stage.GA),
        ("Steady", "1.26", "1.24", Stage.ALPHA),
        ("Steady", "1.27", "1.27", Stage.BETA),
    ],
)
def test_last_gate_is_that_of_the_last_stage_with_one(
    name: str, release: str, stage: str | None, gate: Stage | None
) -> None:
    stages = parse_table(TABLE)[name]

    reached, last = stage_of(stages, Release.parse(release)), last_gate_of(stages, Release.parse(release))

    assert (str(reached.since) if reached is not None else None) == stage
    assert (last.stage if last is not None else None) == gate


def test_stages_are_described() -> None:
    described = [describe_stage(stage) for stages in parse_table(TABLE).values() for stage in stages]

    assert described == [
        *("1.26: GA, on, locked", "1.29: removed"),
        *("1.24: alpha, off", "1.27: beta, on", "1.30: GA, on, locked"),
        "1.31: alpha, off",
    ]


@pytest.mark.parametrize("stage", ["beta1.27", "stable+1.27", "ga+", "+1.27"])
def test_invalid_stage_is_an_error(stage: str) -> None:
    with pytest.raises(ValueError, match="feature gate Odd: invalid stage"):
        parse_table(f"Odd {stage}")
