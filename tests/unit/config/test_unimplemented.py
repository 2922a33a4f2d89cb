"""What has no effect yet is named when it is set, and only then."""

from __future__ import annotations

from pathlib import Path

from nodeagent.config.features import KNOWN
from nodeagent.config.fields import all_fields
from nodeagent.config.flags import parse
from nodeagent.config.nodeflags import NODE_FLAGS
from nodeagent.config.types import NodeAgentConfiguration, seconds
from nodeagent.config.unimplemented import FIELDS, FLAGS, GATES_IN_USE, all_unimplemented, unimplemented

ROOT = Path(__file__).parents[3]


def test_the_lists_name_what_exists():
    assert {path for path in all_fields() if "." not in path} >= FIELDS
    assert {flag.name for flag in NODE_FLAGS} >= FLAGS
    assert {gate.name for gate in KNOWN} >= GATES_IN_USE


def test_a_gate_is_in_use_when_the_code_asks_for_it():
    lists = {"features.py", "names.py", "unimplemented.py"}
    texts = [
        path.read_text()
        for part in ("nodeagent", "plugins/nodeagent_plugins")
        for path in (ROOT / part).rglob("*.py")
        if path.name not in lists
    ]

    asked = {gate.name for gate in KNOWN if any(f'"{gate.name}"' in text for text in texts)}

    assert asked == GATES_IN_USE


def test_defaults_are_not_named():
    assert unimplemented(NodeAgentConfiguration()) == []


def test_an_idle_field_or_gate_is_named_when_it_differs(monkeypatch):
    monkeypatch.setattr("nodeagent.config.unimplemented.FIELDS", frozenset({"volumeStatsAggPeriod", "maxPods"}))
    monkeypatch.setattr("nodeagent.config.unimplemented.GATES_IN_USE", frozenset({"NodeSwap"}))
    config = NodeAgentConfiguration(
        volume_stats_agg_period=seconds(5),
        cpu_manager_policy="static",
        feature_gates={"NodeSwap": True, "MemoryQoS": True, "AppArmor": True},
    )

    assert unimplemented(config) == ["volumeStatsAggPeriod", "featureGates.MemoryQoS"]


def test_the_whole_list_holds_fields_flags_and_gates():
    listed = all_unimplemented()

    assert set(listed) >= FIELDS | {f"--{name}" for name in FLAGS}
    assert not {f"featureGates.{name}" for name in GATES_IN_USE} & set(listed)


def test_an_idle_flag_is_named_when_given():
    for name in FLAGS:
        assert any(f"--{name}" in warning for warning in parse([f"--{name}=1s"]).warnings), name
