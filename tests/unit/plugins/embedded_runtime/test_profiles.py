"""Tests for the seccomp profiles of containers."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodeagent.base.criproto import api_pb2 as cri
from nodeagent_plugins.embedded_runtime.errors import FailedPrecondition, InvalidArgument
from nodeagent_plugins.embedded_runtime.oci_runtimes import OWN, Runner
from nodeagent_plugins.embedded_runtime.profiles import DEFAULT, seccomp_profile

CRUN, BUILT_IN = Runner("crun", ("crun",)), Runner(OWN, ("own",))
PROFILE = cri.SecurityProfile


def context(kind: PROFILE.ProfileType, path: str = "") -> cri.LinuxContainerSecurityContext:
    return cri.LinuxContainerSecurityContext(seccomp=PROFILE(profile_type=kind, localhost_ref=path))


@pytest.mark.parametrize(
    "security",
    [
        cri.LinuxContainerSecurityContext(),
        context(PROFILE.Unconfined),
        cri.LinuxContainerSecurityContext(privileged=True, seccomp=PROFILE(profile_type=PROFILE.RuntimeDefault)),
    ],
)
def test_unconfined_container_runs_with_any_runtime(security: cri.LinuxContainerSecurityContext) -> None:
    assert [seccomp_profile(security, runner) for runner in (CRUN, BUILT_IN)] == [None, None]


@pytest.mark.parametrize("kind", [PROFILE.RuntimeDefault, PROFILE.Localhost])
def test_built_in_runtime_cannot_apply_profiles(kind: PROFILE.ProfileType) -> None:
    with pytest.raises(FailedPrecondition, match="seccomp profiles require crun or runc"):
        seccomp_profile(context(kind), BUILT_IN)


def test_default_profile_forbids_calls_that_affect_the_host() -> None:
    assert seccomp_profile(context(PROFILE.RuntimeDefault), CRUN) == DEFAULT


def test_profile_of_the_host_is_read_from_its_file(tmp_path: Path) -> None:
    (file := tmp_path / "audit.json").write_text('{"defaultAction": "SCMP_ACT_LOG"}')

    assert seccomp_profile(context(PROFILE.Localhost, str(file)), CRUN) == {"defaultAction": "SCMP_ACT_LOG"}


@pytest.mark.parametrize(
    ("content", "reason"), [(None, "No such file or directory"), ("{", "Input data was truncated"), ("[]", "Expected")]
)
def test_invalid_profile_of_the_host_is_rejected(tmp_path: Path, content: str | None, reason: str) -> None:
    file = tmp_path / "audit.json"
    if content is not None:
        file.write_text(content)

    with pytest.raises(InvalidArgument, match=f"seccomp profile {file}: {reason}"):
        seccomp_profile(context(PROFILE.Localhost, str(file)), CRUN)
