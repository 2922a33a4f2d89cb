"""Tests for the agent's feature gates: stage and default as in the specification."""

from __future__ import annotations

import pytest

from nodeagent.config.features import KNOWN, build_gates
from nodeagent.contracts.configuration import NodeAgentConfiguration
from tests.conftest import ROWS_FILE


def documented() -> dict[str, tuple[str, str]]:
    """Return stage and default of each documented gate."""
    rows = [line.split("\t") for line in ROWS_FILE.read_text(encoding="utf-8").splitlines()]
    return {row[0].removeprefix("gate."): (row[4], row[5]) for row in rows if row[0].startswith("gate.")}


SHARED = [gate for gate in KNOWN if gate.name in documented()]


@pytest.mark.parametrize(
    "gate", [pytest.param(gate, id=gate.name, marks=pytest.mark.row(f"gate.{gate.name}")) for gate in SHARED]
)
def test_gate_has_its_stage_and_default_and_can_be_set(gate):
    stage, default = documented()[gate.name]

    assert (gate.stage.name.lower(), str(gate.default).lower()) == (stage, default)
    assert build_gates(NodeAgentConfiguration().feature_gates).enabled(gate.name) is (default == "true")
    for on in (True, False):
        assert build_gates({gate.name: on}).enabled(gate.name) is on


def test_gates_without_a_specified_stage():
    undocumented = {gate.name for gate in KNOWN} - {gate.name for gate in SHARED}

    assert undocumented == {
        "CPUManager",
        "ConsistentHTTPGetHandlers",
        "ExecProbeTimeout",
        "ExpandedDNSConfig",
        "IPTablesOwnershipCleanup",
        "NodeAgentPodResources",
        "TopologyManager",
    }
    assert all(gate.default for gate in KNOWN if gate.name in undocumented)
