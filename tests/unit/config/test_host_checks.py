"""Tests for the checks of a configuration against the host."""

from __future__ import annotations

import pytest

from nodeagent.config.host_checks import host_problems
from nodeagent.testing import make_config


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
