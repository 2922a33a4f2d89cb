"""Tests for the features that the node declares."""

import pytest

from nodeagent.base.release import Release
from nodeagent.config.features import build_gates
from nodeagent_plugins.pod_sync.declared_features import DeclaredFeatures

RESIZES = ["InPlacePodLevelResourcesVerticalScaling", "InPlacePodVerticalScalingInitContainers"]
RESTART_ALL = "RestartAllContainersOnContainerExits"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [*RESIZES, RESTART_ALL]),
        ({RESTART_ALL: False}, RESIZES),
        ({"ContainerRestartRules": False}, RESIZES),
        ({"InPlacePodVerticalScalingInitContainers": False}, [*RESIZES[:1], RESTART_ALL]),
        ({"NodeDeclaredFeatures": False}, None),
    ],
)
async def test_enabled_features_are_declared(settings, expected):
    report = await DeclaredFeatures(build_gates(settings, Release(1, 36))).nodeagent_report_node()

    assert (report and report.declared_features) == expected


async def test_earlier_release_declares_nothing():
    assert await DeclaredFeatures(build_gates({})).nodeagent_report_node() is None
