"""Tests for the cgroups of the agent, the system and the runtime."""

from __future__ import annotations

import os

import pytest

from nodeagent.errors import ConfigError
from nodeagent_plugins import cgroups
from nodeagent_plugins.cgroups.system_cgroups import SystemCgroups


def loop_of(context):
    found = cgroups.nodeagent_provide_background_loops(context)
    return next((loop for loop in found if isinstance(loop, SystemCgroups)), None)


def running(kernel, *pids):
    """Add processes to the root cgroup of every hierarchy."""
    for path in kernel.directories("/"):
        with (path / "cgroup.procs").open("w") as procs:
            procs.write("\n".join(map(str, pids)))


def without_tracking(kernel, name):
    return kernel.processes(name)[: -1 if kernel.version == 1 else None]


@pytest.mark.row("config.nodeagentCgroups")
def test_agent_moves_into_its_cgroup(agent, kernel):
    context, _ = agent(nodeagent_cgroups="/system/agent")
    running(kernel, 1, os.getpid())

    loop_of(context).keep()
    loop_of(context).keep()

    assert all(found == {os.getpid()} for found in without_tracking(kernel, "/system/agent"))


@pytest.mark.row("config.nodeagentCgroups", "config.systemCgroups")
def test_nothing_moves_unless_configured(agent, kernel):
    context, _ = agent()
    assert loop_of(context) is None


@pytest.mark.row("config.systemCgroups")
def test_processes_outside_containers_move_together(agent, kernel, tmp_path, monkeypatch):
    proc = tmp_path / "proc"
    for pid in (1, 10, 11):
        (proc / str(pid)).mkdir(parents=True)
        (proc / str(pid) / "exe").symlink_to("/bin/true")
    (proc / "2").mkdir()  # a thread of the kernel
    context, _ = agent(cgroup_root="/", system_cgroups="/system")
    running(kernel, 1, 2, 10, 11)

    loop = loop_of(context)
    loop._proc = proc
    loop.keep()

    assert all(found == {10, 11} for found in without_tracking(kernel, "/system"))
    assert all(found == {1, 2} for found in without_tracking(kernel, "/"))


def test_runtime_gets_a_low_oom_score(agent, kernel, tmp_path):
    kernel.make("/runtime/below")
    context, _ = agent(settings={"runtime_cgroups": "/runtime"})
    for pid in ("10", "11"):
        (tmp_path / "proc" / pid).mkdir(parents=True)
    (kernel.directories("/runtime")[0] / "cgroup.procs").write_text("10")
    (kernel.directories("/runtime/below")[0] / "cgroup.procs").write_text("11")

    loop = loop_of(context)
    loop._proc = tmp_path / "proc"
    loop.keep()

    assert [(tmp_path / "proc" / pid / "oom_score_adj").read_text() for pid in ("10", "11")] == ["-999", "-999"]


def test_failure_is_logged_once(agent, kernel, caplog):
    context, _ = agent(settings={"runtime_cgroups": "/nowhere"})
    loop = loop_of(context)
    for _ in range(3):
        loop.keep()
    assert caplog.messages == ["Failed to set OOM score of container runtime"]


def test_missing_cgroups_are_reported_for_the_field(agent, kernel):
    context, _ = agent(cgroups_per_qos=False, nodeagent_cgroups="/agent")
    kernel.mountinfo.write_text("")
    with pytest.raises(ConfigError, match="nodeagentCgroups"):
        cgroups.nodeagent_provide_background_loops(context)
