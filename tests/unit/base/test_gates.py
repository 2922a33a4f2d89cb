"""Feature gates keep their defaults unless settings name them, and refuse what cannot be."""

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


def test_defaults_apply_where_nothing_is_said():
    gates = FeatureGates(KNOWN)

    assert {gate.name for gate, on in gates if on} == {"Grown", "Old", "Fixed"}


def test_a_setting_changes_its_gate_only():
    gates = FeatureGates(KNOWN, {"Young": True, "Grown": False})

    assert gates.enabled("Young")
    assert not gates.enabled("Grown")
    assert gates.switched_off("Grown")
    assert not gates.switched_off("Shy")


def test_stage_wide_settings_move_what_is_not_named():
    gates = FeatureGates(KNOWN, {"AllAlpha": True, "AllBeta": True, "Grown": False})

    assert gates.enabled("Young")
    assert gates.enabled("Shy")
    assert not gates.enabled("Grown")
    assert not gates.enabled("Leaving")


def test_all_wrong_settings_are_refused_at_once():
    with pytest.raises(GateError) as caught:
        FeatureGates(KNOWN, {"Yuong": True, "Fixed": False, "Zzz": True})

    assert [(problem.name, problem.rule) for problem in caught.value.problems] == [
        ("Yuong", "is an unrecognized feature gate; did you mean Young?"),
        ("Fixed", "is locked to true"),
        ("Zzz", "is an unrecognized feature gate"),
    ]


def test_a_locked_gate_accepts_its_own_value():
    assert FeatureGates(KNOWN, {"Fixed": True}).enabled("Fixed")


def test_another_spelling_means_the_same_gate():
    gates = FeatureGates(KNOWN, {"Baby": True}, {"Baby": "Young"})

    assert gates.enabled("Young")


def test_settings_without_a_future_are_warned_about():
    warnings = FeatureGates(KNOWN, {"Old": True, "Leaving": True, "Young": True}).warnings()

    assert warnings == [
        "Setting GA feature gate Old=true. It will be removed in a future release.",
        "Setting deprecated feature gate Leaving=true. It will be removed in a future release.",
    ]


def test_asking_for_a_gate_that_is_not_known_is_a_mistake_of_the_caller():
    with pytest.raises(KeyError):
        FeatureGates(KNOWN).enabled("Nobody")


def test_reads_the_flag_form():
    assert parse_gates("A=true, B=false,C=1,") == {"A": True, "B": False, "C": True}


@pytest.mark.parametrize("text", ["A", "A=yes", "A="])
def test_refuses_flag_items_without_a_boolean(text):
    with pytest.raises(ValueError, match="NAME=true"):
        parse_gates(text)
