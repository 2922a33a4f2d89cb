"""Tests for feature gates: stages, defaults and validation."""

from __future__ import annotations

from pathlib import Path

import pytest

from apiserver_stub import feature_gates
from apiserver_stub.feature_gates import build_gates
from apiserver_stub.gate_table import LIFE_CYCLES
from apiserver_stub.idle_gates import REASONS
from apiserver_stub.options import Options, OptionsError, parse, warnings
from nodeagent.base.gates import Stage
from nodeagent.base.release import OLDEST, Release
from nodeagent.config.gate_table import COMPONENTS
from nodeagent.config.gate_table import LIFE_CYCLES as AGENT_GATES
from tests.conftest import ROWS_FILE

VENDORS = ("AWS", "AzureDisk", "AzureFile", "GCE", "OpenStack", "Portworx", "vSphere")
NAMES = {
    "InTreePluginUnregister": tuple(f"InTreePlugin{vendor}Unregister" for vendor in VENDORS),
    "CSIMigrationVendor": ("CSIMigrationPortworx",),
}
WIDE = ("AllAlpha", "AllBeta")


def documented() -> list[object]:
    """Return the rows of feature gates as parameters: names, stage and default."""
    found: list[object] = []
    for line in ROWS_FILE.read_text(encoding="utf-8").splitlines()[1:]:
        row, _, _, _, stage, default, *_ = line.split("\t")
        name = row.removeprefix("gate.")
        if row.startswith("gate.") and name not in WIDE:
            has_effect = any(gate in feature_gates.GATES_IN_USE for gate in NAMES.get(name, (name,)))
            mark = pytest.mark.row(row) if has_effect else pytest.mark.listed_row(row)
            found.append(pytest.param(NAMES.get(name, (name,)), stage, default == "true", id=name, marks=mark))
    return found


@pytest.mark.parametrize(("names", "stage", "default"), documented())
def test_gate_has_its_stage_and_default_and_can_be_set(names: tuple[str, ...], stage: str, default: bool) -> None:
    known = {gate.name: gate for gate in feature_gates.gates_at(OLDEST)}
    needed = ",StorageVersionAPI=true" if names == ("UnknownVersionInteroperabilityProxy",) else ""

    for name in names:
        assert known[name].stage is Stage[stage.upper()]
        assert Options().gates.enabled(name) is default
        for value in ("true", "false"):
            options = parse([f"--feature-gates={name}={value}{needed}"])
            assert options.gates.enabled(name) is (value == "true")


@pytest.mark.row("gate.AllAlpha")
def test_all_alpha_applies_to_unset_alpha_gates() -> None:
    options = parse(["--feature-gates=WatchList=false,AllAlpha=true,StorageVersionAPI=true"])

    assert not options.gates.enabled("WatchList")
    assert options.gates.enabled("VolumeAttributesClass")
    assert not options.gates.enabled("NodeSwap")
    assert not parse(["--feature-gates=AllAlpha=false"]).gates.enabled("WindowsHostNetwork")


@pytest.mark.row("gate.AllBeta")
def test_all_beta_applies_to_unset_beta_gates() -> None:
    options = parse(["--feature-gates=AllBeta=false", "--feature-gates=AppArmor=true"])

    assert options.gates.enabled("AppArmor")
    assert not options.gates.enabled("APIResponseCompression")
    assert parse(["--feature-gates=AllBeta=true"]).gates.enabled("NodeSwap")


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("Foo=true", 'invalid argument "Foo=true" for "--feature-gates" flag: unrecognized feature gate: Foo'),
        ("WatchLists=true", "did you mean WatchList?"),
        ("NodeSwap", "missing bool value for NodeSwap"),
        ("NodeSwap=maybe", "invalid value of NodeSwap=maybe, err: strconv.ParseBool"),
        ("ServerSideApply=false", "cannot set feature gate ServerSideApply to false, feature is locked to true"),
        ("UnknownVersionInteroperabilityProxy=true", "requires StorageVersionAPI feature flag to be enabled"),
    ],
)
def test_invalid_gates_are_rejected(argument: str, message: str) -> None:
    with pytest.raises(OptionsError) as error:
        parse([f"--feature-gates={argument}"])

    assert message in str(error.value)


def test_locked_gate_cannot_be_disabled() -> None:
    for name in ("APIPriorityAndFairness", "KMSv2", "RemoveSelfLink"):
        assert f"cannot set feature gate {name} to false" in feature_gates.validation_errors({name: False})[0]


def test_gate_without_effect_is_reported() -> None:
    reported = warnings(parse(["--feature-gates=NodeSwap=true,AppArmor=true,WatchList=true,AllBeta=true"]))

    assert [text for text in reported if "has no effect" in text] == [
        "feature gate NodeSwap has no effect in this server"
    ]


def test_used_gates_are_those_that_the_code_reads() -> None:
    root = Path(feature_gates.__file__).parent
    texts = [path.read_text() for path in root.rglob("*.py") if path.name not in ("feature_gates.py", "idle_gates.py")]

    movable = [
        name for name, stages in LIFE_CYCLES.items() if any(stage.gate and not stage.gate.locked for stage in stages)
    ]
    requested = {name for name in movable if any(f'"{name}"' in text for text in texts)}

    assert requested == feature_gates.GATES_IN_USE


def test_gate_without_effect_has_a_reason_or_another_component() -> None:
    idle = {
        name
        for name, stages in LIFE_CYCLES.items()
        if name not in feature_gates.GATES_IN_USE
        and any(stage.gate is not None and not stage.gate.locked for stage in stages)
    }
    others = {name for name in idle if name in COMPONENTS or name in AGENT_GATES}

    assert REASONS.keys() <= idle
    assert idle - others <= REASONS.keys()
    assert {name for name in others if COMPONENTS.get(name) == "kube-apiserver"} <= REASONS.keys()


def test_alias_sets_the_same_gate() -> None:
    assert not parse(["--feature-gates=KubeletTracing=false"]).gates.enabled("NodeAgentTracing")
    assert set(feature_gates.ALIASES.values()) <= set(LIFE_CYCLES)


def test_ga_and_deprecated_gates_cause_a_warning() -> None:
    assert any("KMSv2" in text for text in warnings(parse(["--feature-gates=KMSv2=true"])))
    assert any("KMSv1" in text for text in warnings(parse(["--feature-gates=KMSv1=true"])))
    assert build_gates({}).warnings() == []


@pytest.mark.parametrize(
    ("gate", "enabled"),
    [
        ("InPlacePodVerticalScaling", ["1.33", "1.34", "1.35", "1.36"]),
        ("PodLifecycleSleepAction", ["1.30", "1.31", "1.32", "1.33", "1.34", "1.35", "1.36"]),
        ("AppArmor", ["1.29", "1.30", "1.31", "1.32", "1.33", "1.34", "1.35", "1.36"]),  # Removed in 1.33.
        ("SecurityContextDeny", []),
        ("ClusterTrustBundle", []),
        ("UnknownVersionInteroperabilityProxy", ["1.36"]),
    ],
)
def test_default_of_gate_follows_the_release(gate: str, enabled: list[str]) -> None:
    releases = [f"1.{minor}" for minor in range(29, 37)]

    assert [release for release in releases if build_gates({}, Release.parse(release)).enabled(gate)] == enabled


def test_gate_is_locked_from_its_release_on() -> None:
    setting = "--feature-gates=InPlacePodVerticalScaling=false"
    assert not parse([setting, "--compatibility-version=1.34"]).gates.enabled("InPlacePodVerticalScaling")

    with pytest.raises(OptionsError) as error:
        parse([setting, "--compatibility-version=1.35"])

    text = "cannot set feature gate InPlacePodVerticalScaling to false, feature is locked to true"
    assert error.value.problems == [text]


@pytest.mark.parametrize(
    ("gate", "release", "reason"),
    [
        ("EnvFiles", "1.29", "does not exist before release 1.34; the server serves 1.29"),
        ("AppArmor", "1.36", "no longer exists since release 1.33: the feature is always enabled"),
        ("SecurityContextDeny", "1.30", "no longer exists since release 1.30: the feature is always disabled"),
    ],
)
def test_gate_of_another_release_is_ignored_with_a_warning(gate: str, release: str, reason: str) -> None:
    options = parse([f"--feature-gates={gate}=true", f"--compatibility-version={release}"])

    assert f"feature gate {gate} {reason}" in warnings(options)


@pytest.mark.parametrize(
    ("value", "rule"),
    [("latest", "must be a release such as 1.36"), ("1.28", "must be between 1.29 and 1.36, inclusive")],
)
def test_unsupported_release_is_rejected(value: str, rule: str) -> None:
    with pytest.raises(OptionsError) as error:
        parse([f"--compatibility-version={value}"])

    assert error.value.problems == [f'invalid argument "{value}" for "--compatibility-version" flag: {rule}']


@pytest.mark.parametrize("release", [f"1.{minor}" for minor in range(29, 37)])
def test_gates_of_every_release_are_valid_by_default(release: str) -> None:
    found = warnings(parse([f"--compatibility-version={release}"]))

    assert [text for text in found if "gate" in text] == []
