"""Tests for hosts with cgroup version 1, which releases since 1.35 reject by default."""

from __future__ import annotations

import pytest

from nodeagent.base.release import Release, ReleaseOrigin, SelectedRelease
from nodeagent.errors import ConfigError
from nodeagent_plugins.cgroups.version import CGROUP_VERSION, LOSING_SUPPORT, LOSING_SUPPORT_VERSION

STATED, FOUND = ReleaseOrigin.FLAG, ReleaseOrigin.API_SERVER


@pytest.mark.usefixtures("kernel_v1")
@pytest.mark.parametrize(
    ("minor", "origin", "setting"),
    [(29, STATED, True), (36, FOUND, True), (35, STATED, None), (36, STATED, None)],
)
def test_version_1_is_rejected_by_setting_or_stated_release(agent, minor, origin, setting):
    with pytest.raises(ConfigError, match=r"failCgroupV1.*cgroup v1"):
        agent(fail_cgroup_v1=setting, release=SelectedRelease(Release(1, minor), origin))


@pytest.mark.usefixtures("kernel_v1")
@pytest.mark.parametrize(
    ("minor", "origin", "setting", "events"),
    [
        (29, STATED, None, 0),
        (30, STATED, None, 0),
        (31, STATED, None, 1),
        (34, STATED, None, 1),
        (36, STATED, False, 1),
        (36, FOUND, None, 1),
        (36, ReleaseOrigin.REMEMBERED, None, 1),
    ],
)
def test_version_1_is_a_warning_event_otherwise(agent, minor, origin, setting, events):
    context, _ = agent(fail_cgroup_v1=setting, release=SelectedRelease(Release(1, minor), origin))

    found = context.recorder.of("CgroupV1")
    assert len(found) == events
    assert all(event.type == "Warning" and event.note.startswith("cgroup v1 detected.") for event in found)


@pytest.mark.usefixtures("kernel_v2")
def test_version_2_is_never_rejected(agent):
    context, _ = agent(fail_cgroup_v1=True, release=SelectedRelease(Release(1, 36), STATED))

    assert context.recorder.of("CgroupV1") == []


@pytest.mark.usefixtures("kernel_v1")
def test_version_1_cannot_kill_all_processes(agent):
    with pytest.raises(ConfigError, match="singleProcessOOMKill"):
        agent(single_process_oom_kill=False)

    agent(single_process_oom_kill=True)


def test_version_is_a_metric(agent, kernel):
    agent()

    assert CGROUP_VERSION.value() == kernel.version


@pytest.mark.usefixtures("kernel_v2")
async def test_runtime_without_driver_is_a_metric(agent):
    LOSING_SUPPORT.forget(LOSING_SUPPORT_VERSION)
    context, manager = agent(feature_gates={"NodeAgentCgroupDriverFromCRI": True})
    context.runtime.driver = ""

    await manager.start()

    assert LOSING_SUPPORT.value("1.37.0") == 1
