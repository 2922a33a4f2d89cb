"""Tests for the selection of the OCI runtime."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodeagent_plugins.embedded_runtime import oci_runtimes
from nodeagent_plugins.embedded_runtime.host import Host


def host(version=2, mixed=False, remapped=False):
    return Host(frozenset(), remapped, version, 0, mixed)


@pytest.fixture
def installed(monkeypatch):
    executables = {"crun": "/bin/crun", "runc": "/bin/runc"}
    monkeypatch.setattr(oci_runtimes, "find_executable", lambda name: executables.get(name, ""))
    return executables


def test_crun_is_preferred_over_runc_and_the_built_in_runtime(installed):
    assert oci_runtimes.choose_runner("", Path("/s"), host()).name == "crun"
    del installed["crun"]
    assert oci_runtimes.choose_runner("", Path("/s"), host()).name == "runc"
    installed.clear()
    assert oci_runtimes.choose_runner("", Path("/s"), host()).name == "own"


@pytest.mark.parametrize("name", ["crun", "runc"])
def test_cgroups_are_used_where_they_can_be_created(installed, name):
    assert oci_runtimes.choose_runner(name, Path("/s"), host()).command == (f"/bin/{name}", "--root", "/s")


def test_runc_is_selected_for_mixed_cgroup_versions(installed):
    assert oci_runtimes.choose_runner("", Path("/s"), host(1, mixed=True)).name == "runc"


def test_without_cgroups_crun_is_configured_and_runc_is_skipped(installed):
    runner = oci_runtimes.choose_runner("", Path("/s"), host(0, remapped=True))
    assert runner.command == ("/bin/crun", "--root", "/s", "--cgroup-manager=disabled")
    del installed["crun"]
    assert oci_runtimes.choose_runner("", Path("/s"), host(0, remapped=True)).name == "own"


@pytest.mark.parametrize("requested", ["docker", "crun"])
def test_unavailable_runtime_is_rejected(installed, requested):
    installed.clear()
    with pytest.raises(ValueError, match=requested):
        oci_runtimes.choose_runner(requested, Path("/s"), host())


def test_only_installed_runtimes_filter_calls_and_apply_apparmor(installed):
    for name, expected in [("crun", True), ("runc", True), ("own", False)]:
        runner = oci_runtimes.choose_runner(name, Path("/s"), host())
        assert (runner.name, runner.filters_calls, runner.applies_apparmor) == (name, expected, expected)
    chroot = Host(frozenset(), False, 2, 0, False, chrooted=True)
    assert oci_runtimes.choose_runner("", Path("/s"), chroot).name == "own"
    with pytest.raises(ValueError, match="unknown runner"):
        oci_runtimes.choose_runner("docker", Path("/s"), host())


def test_console_socket_is_requested_for_terminals(installed):
    runner = oci_runtimes.choose_runner("crun", Path("/s"), host())

    assert "--console-socket" in runner.run(Path("/c"), "c", terminal=True)
    assert "--console-socket" not in runner.run(Path("/c"), "c", terminal=False)
