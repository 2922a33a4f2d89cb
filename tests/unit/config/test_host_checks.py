"""Tests for the checks of a configuration against the host."""

from __future__ import annotations

import pytest

from nodeagent.base.release import Release
from nodeagent.config import host_checks
from nodeagent.config.features import build_gates
from nodeagent.testing import make_config


def host_problems(config, file, cgroups, swaps=None, systemd=None, **gates):
    gates = build_gates(gates, Release.parse("1.34"))
    return host_checks.host_problems(config, gates, file, cgroups, swaps or cgroups / "none", systemd or cgroups)


@pytest.mark.parametrize("existing", ["pods", "memory/pods"])
def test_existing_cgroup_root_is_valid_in_both_hierarchies(tmp_path, existing):
    (tmp_path / existing).mkdir(parents=True)

    assert host_problems(make_config(cgroup_root="/pods"), "f", tmp_path) == []


def test_missing_cgroup_root_is_reported_with_the_option_for_other_hosts(tmp_path):
    (problem,) = host_problems(make_config(cgroup_root="/pods"), "f", tmp_path)

    assert (problem.path, problem.value) == ("cgroupRoot", "/pods")
    assert "does not exist on this host" in problem.rule
    assert "--other-host" in problem.rule


@pytest.mark.parametrize("fields", [{"cgroup_root": "/"}, {"cgroup_root": "/a.slice", "cgroup_driver": "systemd"}])
def test_cgroup_roots_that_the_agent_needs_not_find_are_valid(tmp_path, fields):
    assert host_problems(make_config(**fields), "f", tmp_path) == []


def test_systemd_driver_is_reported_without_systemd(tmp_path):
    config = make_config(cgroup_driver="systemd")

    (problem,) = host_problems(config, "f", tmp_path, systemd=tmp_path / "none")

    assert (problem.path, problem.value) == ("cgroupDriver", "systemd")
    assert "requires a host with systemd" in problem.rule
    assert host_problems(config, "f", tmp_path, systemd=tmp_path) == []
    disabled = make_config(cgroup_driver="systemd", cgroups_per_qos=False, enforce_node_allocatable=[])
    assert host_problems(disabled, "f", tmp_path, systemd=tmp_path / "none") == []


@pytest.mark.parametrize(
    ("fields", "path"),
    [({"fail_cgroup_v1": True}, "failCgroupV1"), ({"single_process_oom_kill": False}, "singleProcessOOMKill")],
)
def test_settings_that_a_host_with_cgroup_v1_does_not_permit_are_reported(tmp_path, fields, path):
    (problem,) = host_problems(make_config(**fields), "f", tmp_path)
    assert problem.path == path

    (tmp_path / "cgroup.controllers").touch()
    assert host_problems(make_config(**fields), "f", tmp_path) == []


def test_enabled_swap_is_reported_unless_the_agent_starts_with_it(tmp_path):
    swaps = tmp_path / "swaps"
    swaps.write_text("Filename Type Size Used Priority\n/dev/sdz file 1 0 -2\n")

    (problem,) = host_problems(make_config(fail_swap_on=True), "f", tmp_path, swaps)

    assert problem.path == "failSwapOn"
    assert "/dev/sdz" in problem.rule
    assert host_problems(make_config(fail_swap_on=False), "f", tmp_path, swaps) == []
    assert host_problems(make_config(fail_swap_on=True), "f", tmp_path, swaps, NodeAgentInUserNamespace=True) == []
