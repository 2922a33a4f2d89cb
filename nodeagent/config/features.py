"""Feature gates of the agent at a release, and review of the settings (spec: config.featureGates)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nodeagent.base.gates import ALL_ALPHA, ALL_BETA, FeatureGate, FeatureGates
from nodeagent.base.release import OLDEST, Release
from nodeagent.base.similarity import most_similar
from nodeagent.base.structs import Struct
from nodeagent.config.gate_table import ALWAYS_ON_BEFORE, COMPONENTS, LIFE_CYCLES, last_gate, stage_at
from nodeagent.config.names import native_gate

_WIDE = (ALL_ALPHA, ALL_BETA)


class GateRemark(Struct, frozen=True):
    """Setting without an effect; ``reason`` is a predicate whose subject is the gate."""

    name: str
    value: bool
    reason: str
    unknown: bool = False
    """True if no component of any known release has the gate."""


def gates_at(release: Release) -> tuple[FeatureGate, ...]:
    """Return all feature gates of the agent at *release*, with stage and default."""
    stages = (stage_at(name, release) for name in LIFE_CYCLES)
    return tuple(stage.gate for stage in stages if stage is not None and stage.gate is not None)


def build_gates(settings: Mapping[str, bool], release: Release = OLDEST) -> FeatureGates:
    """Return the state of all feature gates with *settings* (the value of ``featureGates``).

    Settings of gates that *release* does not have are ignored; see :func:`review_settings`.

    :raises nodeagent.base.gates.GateError: a gate that no supported release can change would change.
    """
    remarks = {remark.name for remark in review_settings(settings, release)}
    effective = {native_gate(name): value for name, value in settings.items() if native_gate(name) not in remarks}
    return FeatureGates(gates_at(release), effective, absent=_absent(release))


def enabled_since(name: str) -> str:
    """Return the supported release since which a gate is enabled by default; empty if it never is."""
    since = ""
    for stage in LIFE_CYCLES[name]:
        if stage.gate is None:  # The feature is always enabled from here on.
            break
        since = (since or str(stage.since)) if stage.gate.default else ""
    return since


def review_settings(settings: Mapping[str, bool], release: Release) -> Iterator[GateRemark]:
    """Yield a remark for each setting that is accepted and has no effect at *release*."""
    for spelling, value in settings.items():
        name = native_gate(spelling)
        if name in _WIDE:
            continue
        reason = _reason(name, value, release)
        if reason:
            yield GateRemark(name, value, reason)
        elif name not in LIFE_CYCLES:
            near = most_similar(name, [*LIFE_CYCLES, *COMPONENTS, *_WIDE], 0.75)
            hint = f"; did you mean {near}?" if near else ""
            yield GateRemark(name, value, f"is not a feature gate of any known release{hint}", unknown=True)


def _reason(name: str, value: bool, release: Release) -> str:
    """Return the reason why a known gate cannot be set at *release*, or the empty string."""
    if name in COMPONENTS:
        return f"is a feature gate for {COMPONENTS[name]}, not for the node agent"
    if name not in LIFE_CYCLES:
        return ""
    stage = stage_at(name, release)
    if stage is None:
        return f"does not exist before release {LIFE_CYCLES[name][0].since}; the node follows {release}"
    if stage.gate is None:
        return f"no longer exists since release {stage.since}: the feature is always enabled"
    oldest = stage_at(name, OLDEST)
    settable = oldest is None or oldest.gate is None or not oldest.gate.locked
    if stage.gate.locked and value != stage.gate.default and settable:
        return f"is locked to {str(stage.gate.default).lower()} since release {stage.since}"
    return ""


def _absent(release: Release) -> dict[str, bool]:
    """Return the state of the gates that *release* does not have: not yet, or no longer."""
    present = {gate.name for gate in gates_at(release)}
    missing = [name for name in LIFE_CYCLES if name not in present]
    return {
        name: name in ALWAYS_ON_BEFORE if gate is None else gate.default
        for name in missing
        for gate in [last_gate(name, release)]
    }
