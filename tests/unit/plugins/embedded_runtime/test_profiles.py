"""Tests for seccomp and AppArmor profiles of the embedded runtime."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodeagent.base.criproto import api_pb2 as cri
from nodeagent_plugins.embedded_runtime import profiles
from nodeagent_plugins.embedded_runtime.errors import FailedPrecondition
from nodeagent_plugins.embedded_runtime.oci_runtimes import Runner

CRUN = Runner("crun", ("crun",))
PROFILE = cri.SecurityProfile


def context(kind: PROFILE.ProfileType, path: str = "") -> cri.LinuxContainerSecurityContext:
    return cri.LinuxContainerSecurityContext(apparmor=PROFILE(profile_type=kind, localhost_ref=path))


@pytest.fixture(params=[True, False], ids=["with", "without"])
def enabled(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Host with or without AppArmor."""
    monkeypatch.setattr(profiles, "_APPARMOR", tmp_path / "enabled")
    if request.param:
        (tmp_path / "enabled").write_text("Y\n")
    return bool(request.param)


def test_apparmor_profile_is_not_silently_ignored(enabled: bool) -> None:
    problem = "not supported by this runtime" if enabled else "the host does not support AppArmor"

    with pytest.raises(FailedPrecondition, match=problem):
        profiles.seccomp_profile(context(PROFILE.Localhost, "web"), CRUN)
    if enabled:
        with pytest.raises(FailedPrecondition, match=problem):
            profiles.seccomp_profile(context(PROFILE.RuntimeDefault), CRUN)


def test_container_without_profile_is_accepted(enabled: bool) -> None:
    assert profiles.seccomp_profile(cri.LinuxContainerSecurityContext(), CRUN) is None
    assert profiles.seccomp_profile(context(PROFILE.Unconfined), CRUN) is None
    if not enabled:
        assert profiles.seccomp_profile(context(PROFILE.RuntimeDefault), CRUN) is None
