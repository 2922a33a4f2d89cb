"""Tests for the detection of feature gates without an effect."""

from __future__ import annotations

from pathlib import Path

from nodeagent.config.features import build_gates
from nodeagent.config.gate_table import LIFE_CYCLES
from nodeagent.config.gate_usage import (
    GATES_IN_USE,
    all_ineffective_settings,
    ineffective_settings,
    reason_without_effect,
)

ROOT = Path(__file__).parents[3]


def test_gates_in_use_exist():
    assert LIFE_CYCLES.keys() >= GATES_IN_USE


def test_gate_is_in_use_if_the_code_reads_it():
    lists = {"features.py", "gate_table.py", "names.py", "gate_usage.py"}
    texts = [
        path.read_text()
        for package in ("nodeagent", "plugins/nodeagent_plugins")
        for path in (ROOT / package).rglob("*.py")
        if path.name not in lists and path != ROOT / "nodeagent/contracts/runtime.py"
    ]

    read = {name for name in LIFE_CYCLES if any(f'"{name}"' in text for text in texts)}

    assert read == GATES_IN_USE


def test_defaults_are_not_listed():
    assert ineffective_settings(build_gates({})) == []


def test_ineffective_gate_is_listed_if_changed(monkeypatch):
    monkeypatch.setattr("nodeagent.config.gate_usage.GATES_IN_USE", frozenset({"NodeSwap"}))
    gates = build_gates({"NodeSwap": True, "MemoryQoS": True, "AppArmor": True})

    assert ineffective_settings(gates) == ["featureGates.MemoryQoS"]


def test_all_ineffective_settings_exclude_gates_in_use():
    listed = all_ineffective_settings()

    assert listed
    assert not {f"featureGates.{name}" for name in GATES_IN_USE} & set(listed)


def test_reason_without_effect_is_that_of_the_gate():
    assert reason_without_effect("NodeSwap") == ""
    assert reason_without_effect("JobReadyPods") == "for kube-controller-manager"
    assert reason_without_effect("PLEGOnDemandRelist") == "pods are listed on demand in every release"
    assert reason_without_effect("Unknown") == "not implemented"
