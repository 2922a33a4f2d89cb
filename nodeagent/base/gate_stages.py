"""Stages of feature gates by release, in the notation of the tables of gates. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from nodeagent.base.gates import FeatureGate, Stage
from nodeagent.base.release import Release
from nodeagent.base.structs import Struct

_STAGE = re.compile(r"(?P<stage>alpha|beta|ga|deprecated)(?P<default>[+-])(?P<locked>!?)(?P<since>[\d.]+)")
_REMOVED, _BEFORE = "removed", "before"


class GateStage(Struct, frozen=True):
    """Stage of a gate from release *since* on; without *gate*, the release no longer has the gate."""

    since: Release
    gate: FeatureGate | None


LifeCycles = Mapping[str, Sequence[GateStage]]
"""Stages of each gate, oldest first."""


def parse_table(table: str) -> dict[str, tuple[GateStage, ...]]:
    """Return the stages of the gates in *table*, one gate per line: name, then the stages.

    In a stage, ``+`` is on and ``-`` is off by default, ``!`` is locked, ``removed`` is the first release without the
    gate; ``before+`` and ``before-`` are not stages.
    """
    lines = (line.split() for line in table.strip().splitlines())
    return {
        name: tuple(_parse_stage(name, text) for text in stages if not text.startswith(_BEFORE))
        for name, *stages in lines
    }


def stage_of(stages: Sequence[GateStage], release: Release) -> GateStage | None:
    """Return the stage at *release*, or ``None`` before the first one."""
    reached = [stage for stage in stages if stage.since <= release]
    return reached[-1] if reached else None


def last_gate_of(stages: Sequence[GateStage], release: Release) -> FeatureGate | None:
    """Return the gate with its last stage up to *release*, even if it was removed since then."""
    reached = [stage.gate for stage in stages if stage.since <= release and stage.gate is not None]
    return reached[-1] if reached else None


def existing_gates(life_cycles: LifeCycles, release: Release) -> tuple[FeatureGate, ...]:
    """Return the gates that *release* has, with stage and default."""
    found = (stage_of(stages, release) for stages in life_cycles.values())
    return tuple(stage.gate for stage in found if stage is not None and stage.gate is not None)


def describe_stage(stage: GateStage) -> str:
    """Return the stage for documentation, such as ``1.29: beta, on``."""
    gate = stage.gate
    if gate is None:
        return f"{stage.since}: removed"
    name = gate.stage.value.lower() or "GA"
    return f"{stage.since}: {name}, {'on' if gate.default else 'off'}{', locked' if gate.locked else ''}"


def _parse_stage(name: str, text: str) -> GateStage:
    if text.startswith(_REMOVED):
        return GateStage(Release.parse(text.removeprefix(_REMOVED)), None)
    match = _STAGE.fullmatch(text)
    if match is None:
        raise ValueError(f"feature gate {name}: invalid stage {text!r}")
    stage, default, locked = Stage[match["stage"].upper()], match["default"] == "+", bool(match["locked"])
    return GateStage(Release.parse(match["since"]), FeatureGate(name, stage, default, locked))
