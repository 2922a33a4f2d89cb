"""Tests for the agent's feature gates: stage and default by release, and settings of other gates."""

from __future__ import annotations

import pytest

from nodeagent.base.gates import GateError, Stage
from nodeagent.base.release import NEWEST, OLDEST, Release
from nodeagent.config.features import build_gates, enabled_since, gates_at, review_settings
from nodeagent.config.gate_table import COMPONENTS, LIFE_CYCLES
from nodeagent.config.gate_usage import GATES_IN_USE, reason_without_effect
from nodeagent.contracts.configuration import NodeAgentConfiguration
from tests.conftest import ROOT, ROWS_FILE

VENDORS = ("AWS", "AzureDisk", "AzureFile", "GCE", "OpenStack", "Portworx", "vSphere")
NAMES = {
    "InTreePluginUnregister": tuple(f"InTreePlugin{vendor}Unregister" for vendor in VENDORS),
    "CSIMigrationVendor": ("CSIMigrationPortworx",),
}
KNOWN = gates_at(OLDEST)


def documented() -> dict[str, tuple[str, str]]:
    """Return stage and default of each documented gate."""
    rows = [line.split("\t") for line in ROWS_FILE.read_text(encoding="utf-8").splitlines()]
    return {row[0].removeprefix("gate."): (row[4], row[5]) for row in rows if row[0].startswith("gate.")}


SHARED = [gate for gate in KNOWN if gate.name in documented()]
ROWS = [name for name in documented() if name not in ("AllAlpha", "AllBeta")]


@pytest.mark.parametrize(
    "gate",
    [
        pytest.param(
            gate,
            id=gate.name,
            marks=[pytest.mark.row(f"gate.{gate.name}")] if gate.name in GATES_IN_USE else [],
        )
        for gate in SHARED
    ],
)
def test_gate_has_its_stage_and_default_and_can_be_set(gate):
    stage, default = documented()[gate.name]

    assert (gate.stage.name.lower(), str(gate.default).lower()) == (stage, default)
    assert build_gates(NodeAgentConfiguration().feature_gates).enabled(gate.name) is (default == "true")
    for on in (True, False):
        assert build_gates({gate.name: on}).enabled(gate.name) is on


@pytest.mark.parametrize(
    "row", [pytest.param(name, id=name, marks=pytest.mark.listed_row(f"gate.{name}")) for name in ROWS]
)
def test_documented_gate_is_accepted_and_listed(row):
    page = (ROOT / "docs" / "feature-gates.md").read_text(encoding="utf-8")

    for name in NAMES.get(row, (row,)):
        build_gates({name: True})
        build_gates({name: False})
        assert not any(remark.unknown for remark in review_settings({name: True}, OLDEST))
        assert f"`{name}`" in page
        assert f"`{name}` | {reason_without_effect(name)}" in page or name in LIFE_CYCLES


def test_gates_without_a_specified_stage():
    undocumented = {gate.name for gate in KNOWN} - {gate.name for gate in SHARED}

    assert undocumented == {
        "CPUManager",
        "ConsistentHTTPGetHandlers",
        "ExecProbeTimeout",
        "ExpandedDNSConfig",
        "IPTablesOwnershipCleanup",
        "NodeAgentPodResources",
        "ProbeTerminationGracePeriod",
        "TopologyManager",
    }
    assert all(gate.default for gate in KNOWN if gate.name in undocumented)


@pytest.mark.parametrize(
    ("name", "release", "stage", "default", "locked"),
    [
        ("InPlacePodVerticalScaling", "1.29", Stage.ALPHA, False, False),
        ("InPlacePodVerticalScaling", "1.34", Stage.BETA, True, False),
        ("InPlacePodVerticalScaling", "1.36", Stage.GA, True, True),
        ("NodeLogQuery", "1.35", Stage.BETA, False, False),
        ("ImageVolume", "1.34", Stage.BETA, False, False),
        ("CustomCPUCFSQuotaPeriod", "1.36", Stage.GA, True, False),
        ("DisableNodePlatformProxyVersion", "1.33", Stage.DEPRECATED, True, False),
        ("GitRepoVolumeDriver", "1.36", Stage.DEPRECATED, False, True),
        ("TopologyManagerPolicyOptions", "1.35", Stage.GA, True, False),
        ("TopologyManagerPolicyOptions", "1.36", Stage.GA, True, True),
        ("MemoryManager", "1.35", Stage.GA, True, True),
        ("DevicePluginCDIDevices", "1.33", Stage.GA, True, True),
        ("PodDisruptionConditions", "1.33", Stage.GA, True, True),
        ("ConsistentHTTPGetHandlers", "1.30", Stage.GA, True, True),
        ("AppArmorFields", "1.30", Stage.BETA, True, False),
        ("NativeHistograms", "1.36", Stage.ALPHA, False, False),
    ],
)
def test_stage_depends_on_the_release(name, release, stage, default, locked):
    gate = next(gate for gate in gates_at(Release.parse(release)) if gate.name == name)

    assert (gate.stage, gate.default, gate.locked) == (stage, default, locked)


@pytest.mark.parametrize(
    ("name", "release", "enabled"),
    [
        ("EnvFiles", "1.29", False),
        ("EnvFiles", "1.36", True),
        ("AppArmor", "1.36", True),
        ("SidecarContainers", "1.36", True),
        ("GitRepoVolumeDriver", "1.29", True),
        ("NodeAgentPodResourcesListUseActivePods", "1.29", False),
    ],
)
def test_gate_missing_from_the_release_can_be_queried(name, release, enabled):
    assert build_gates({}, Release.parse(release)).enabled(name) is enabled


@pytest.mark.parametrize(
    ("name", "release", "reason"),
    [
        ("JobReadyPods", "1.36", "is a feature gate for kube-controller-manager, not for the node agent"),
        ("MemoryManager", "1.36", "no longer exists since release 1.36: the feature is always enabled"),
        ("DevicePluginCDIDevices", "1.34", "no longer exists since release 1.34: the feature is always enabled"),
        ("PodDisruptionConditions", "1.34", "no longer exists since release 1.34: the feature is always enabled"),
        ("ImageVolumeWithDigest", "1.35", "does not exist before release 1.36; the node follows 1.35"),
        ("WatchListClient", "1.36", "is a feature gate for the Go client library, not for the node agent"),
        ("EnvFiles", "1.29", "does not exist before release 1.34; the node follows 1.29"),
        ("AppArmor", "1.36", "no longer exists since release 1.33: the feature is always enabled"),
        ("SidecarContainers", "1.36", "is locked to true since release 1.33"),
        ("AppArmour", "1.36", "is not a feature gate of any known release; did you mean AppArmor?"),
    ],
)
def test_setting_without_effect_is_accepted_with_a_reason(name, release, reason):
    selected = Release.parse(release)

    build_gates({name: False}, selected)

    assert [remark.reason for remark in review_settings({name: False}, selected)] == [reason]


def test_setting_with_effect_has_no_remark():
    assert not list(review_settings({"NodeSwap": True, "AllBeta": False, "SidecarContainers": True}, OLDEST))
    assert not list(review_settings({"SidecarContainers": True, "KubeletCrashLoopBackOffMax": False}, NEWEST))


@pytest.mark.parametrize(
    ("name", "since"),
    [
        ("AllowDNSOnlyNodeCSR", ""),
        ("AppArmor", "1.4"),
        ("AuthorizeNodeWithSelectors", "1.32"),
        ("CloudDualStackNodeIPs", "1.29"),
        ("ComponentFlagz", "1.36"),
        ("InPlacePodVerticalScalingAllocatedStatus", ""),
        ("TopologyManagerPolicyOptions", "1.28"),
    ],
)
def test_gate_is_enabled_since_the_first_release_with_that_default(name, since):
    assert enabled_since(name) == since


def test_gate_locked_in_all_releases_cannot_be_changed():
    with pytest.raises(GateError, match="CPUManager: is locked to true"):
        build_gates({"CPUManager": False})


def test_gate_belongs_to_the_agent_or_to_another_component():
    assert not LIFE_CYCLES.keys() & COMPONENTS.keys()


def test_kubelet_names_of_all_gates_are_accepted():
    gates = build_gates({"KubeletCrashLoopBackOffMax": False}, NEWEST)

    assert not gates.enabled("NodeAgentCrashLoopBackOffMax")


def test_stages_are_in_release_order():
    for stages in LIFE_CYCLES.values():
        assert [stage.since for stage in stages] == sorted(stage.since for stage in stages)
