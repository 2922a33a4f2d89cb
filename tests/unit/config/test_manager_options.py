"""Tests for the options of the CPU and topology manager policies by release."""

from __future__ import annotations

import pytest

from nodeagent.base.release import Release, ReleaseOrigin, SelectedRelease
from nodeagent.config.features import build_gates
from nodeagent.config.rules.check import Check
from nodeagent.config.rules.manager_options import check_cpu_options, check_topology_options
from nodeagent.testing import make_config


def check(release, options=None, *, topology=None, gates=None, origin=ReleaseOrigin.FLAG):
    """Return the violated rules by option, and the warnings."""
    found, warnings = {}, []
    selected = Release.parse(release)
    config = make_config(cpu_manager_policy_options=options or {}, topology_manager_policy_options=topology or {})
    checked = Check(
        config,
        build_gates(gates or {}, selected),
        lambda path, _value, rule: found.update({path.partition(".")[2]: rule}),
        warnings,
        SelectedRelease(selected, origin),
    )
    check_cpu_options(checked)
    check_topology_options(checked)
    return found, warnings


@pytest.mark.parametrize(
    ("option", "missing", "alpha", "enabled"),
    [
        ("full-pcpus-only", "", "", "1.29"),
        ("distribute-cpus-across-numa", "", "1.32", "1.33"),
        ("align-by-socket", "", "1.36", ""),
        ("distribute-cpus-across-cores", "1.30", "1.36", ""),
        ("strict-cpu-reservation", "1.31", "1.32", "1.33"),
        ("prefer-align-cpus-by-uncorecache", "1.31", "1.33", "1.34"),
    ],
)
@pytest.mark.row("config.cpuManagerPolicyOptions", "gate.CPUManagerPolicyAlphaOptions")
def test_cpu_option_depends_on_release_and_gate(option, missing, alpha, enabled):
    options = {option: "true"}

    if missing:
        assert "needs release" in check(missing, options)[0][option]
    if alpha:
        assert check(alpha, options)[0] == {option: "needs the feature gate CPUManagerPolicyAlphaOptions"}
        assert check(alpha, options, gates={"CPUManagerPolicyAlphaOptions": True})[0] == {}
    if enabled:
        assert check(enabled, options)[0] == {}


@pytest.mark.row("gate.CPUManagerPolicyBetaOptions", "gate.TopologyManagerPolicyBetaOptions")
def test_beta_options_need_the_gate_until_they_are_stable():
    gates = {"CPUManagerPolicyBetaOptions": False, "TopologyManagerPolicyBetaOptions": False}
    cpu, topology = {"full-pcpus-only": "true"}, {"max-allowable-numa-nodes": "8"}

    assert check("1.32", cpu, topology=topology, gates=gates)[0] == {
        "full-pcpus-only": "needs the feature gate CPUManagerPolicyBetaOptions",
        "max-allowable-numa-nodes": "needs the feature gate TopologyManagerPolicyBetaOptions",
    }
    assert check("1.35", cpu, topology=topology, gates=gates)[0] == {}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("full-pcpus-only", "distribute-cpus-across-cores"),
        ("distribute-cpus-across-cores", "distribute-cpus-across-numa"),
        ("distribute-cpus-across-cores", "prefer-align-cpus-by-uncorecache"),
        ("distribute-cpus-across-numa", "prefer-align-cpus-by-uncorecache"),
    ],
)
def test_contradicting_cpu_options_are_rejected(one, other):
    gates = {"CPUManagerPolicyAlphaOptions": True}

    assert check("1.36", {one: "true", other: "true"}, gates=gates)[0] == {
        one: f"cannot be used at the same time as {other}"
    }
    assert check("1.36", {one: "true", other: "false"}, gates=gates)[0] == {}


@pytest.mark.parametrize(("text", "valid"), [("8", True), ("7", False), ("-9", False), ("many", False), ("", False)])
def test_numa_node_limit_is_at_least_eight(text, valid):
    found, _ = check("1.36", topology={"max-allowable-numa-nodes": text})

    assert (found == {}) is valid


def test_numa_node_limit_above_the_default_causes_a_warning():
    found, warnings = check("1.36", topology={"max-allowable-numa-nodes": "16"})

    assert found == {}
    assert "more than 8 NUMA nodes are not recommended" in warnings[0]


def test_option_of_later_release_is_accepted_for_assumed_release():
    found, warnings = check("1.29", {"strict-cpu-reservation": "true"}, origin=ReleaseOrigin.ASSUMED)

    assert found == {}
    assert warnings == ["cpuManagerPolicyOptions.strict-cpu-reservation is for nodes of release 1.32 or later"]
