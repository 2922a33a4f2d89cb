"""Tests for feature gates: defaults, settings and their validation."""

from __future__ import annotations

import pytest

from nodeagent.base.gates import FeatureGate, FeatureGates, GateError, Stage, parse_gates

KNOWN = (
    FeatureGate("Young", Stage.ALPHA, False),
    FeatureGate("Grown", Stage.BETA, True),
    FeatureGate("Shy", Stage.BETA, False),
    FeatureGate("Old", Stage.GA, True),
    FeatureGate("Fixed", Stage.GA, True, locked=True),
    FeatureGate("Leaving", Stage.DEPRECATED, False),
)


def test_defaults_apply_without_settings():
    gates = FeatureGates(KNOWN)

    assert {gate.name for gate, on in gates if on} == {"Grown", "Old", "Fixed"}


def test_setting_affects_only_its_gate():
    gates = FeatureGates(KNOWN, {"Young": True, "Grown": False})

    assert gates.enabled("Young")
    assert not gates.enabled("Grown")
    assert gates.switched_off("Grown")
    assert not gates.switched_off("Shy")


def test_stage_wide_setting_affects_gates_without_a_setting():
    gates = FeatureGates(KNOWN, {"AllAlpha": True, "AllBeta": True, "Grown": False})

    assert gates.enabled("Young")
    assert gates.enabled("Shy")
    assert not gates.enabled("Grown")
    assert not gates.enabled("Leaving")


def test_error_lists_all_invalid_settings():
    with pytest.raises(GateError) as caught:
        FeatureGates(KNOWN, {"Yuong": True, "Fixed": False, "Zzz": True})

    assert [(problem.name, problem.rule) for problem in caught.value.problems] == [
        ("Yuong", "is an unrecognized feature gate; did you mean Young?"),
        ("Fixed", "is locked to true"),
        ("Zzz", "is an unrecognized feature gate"),
    ]


def test_locked_gate_accepts_its_default():
    assert FeatureGates(KNOWN, {"Fixed": True}).enabled("Fixed")


def test_alias_sets_the_same_gate():
    gates = FeatureGates(KNOWN, {"Baby": True}, {"Baby": "Young"})

    assert gates.enabled("Young")


def test_ga_and_deprecated_settings_cause_warnings():
    warnings = FeatureGates(KNOWN, {"Old": True, "Leaving": True, "Young": True}).warnings()

    assert warnings == [
        "Setting GA feature gate Old=true. It will be removed in a future release.",
        "Setting deprecated feature gate Leaving=true. It will be removed in a future release.",
    ]


def test_unknown_gate_raises_key_error():
    with pytest.raises(KeyError):
        FeatureGates(KNOWN).enabled("Nobody")


def test_flag_format_is_parsed():
    assert parse_gates("A=true, B=false,C=1,") == {"A": True, "B": False, "C": True}


@pytest.mark.parametrize("text", ["A", "A=yes", "A="])
def test_flag_item_without_a_boolean_is_rejected(text):
    with pytest.raises(ValueError, match="NAME=true"):
        parse_gates(text)
