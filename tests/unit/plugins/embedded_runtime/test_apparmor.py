"""Tests for AppArmor profiles of the embedded runtime."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodeagent.base.criproto import api_pb2 as cri
from nodeagent_plugins.embedded_runtime.apparmor import DEFAULT_NAME, LoadError, apparmor_profile
from nodeagent_plugins.embedded_runtime.errors import FailedPrecondition
from nodeagent_plugins.embedded_runtime.oci_runtimes import OWN, Runner

CRUN = Runner("crun", ("crun",))
PROFILE = cri.SecurityProfile
LOADED = "web (enforce)\nname with spaces (complain)\n"


def context(kind: PROFILE.ProfileType, path: str = "") -> cri.LinuxContainerSecurityContext:
    return cri.LinuxContainerSecurityContext(apparmor=PROFILE(profile_type=kind, localhost_ref=path))


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """Sysfs of a host with AppArmor and two loaded profiles."""
    files = {"module/apparmor/parameters/enabled": "Y\n", "kernel/security/apparmor/profiles": LOADED}
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(content)
    return tmp_path


@pytest.mark.parametrize(
    ("security", "expected"),
    [
        (context(PROFILE.Localhost, "web"), "web"),
        (context(PROFILE.Localhost, "localhost/web"), "web"),
        (context(PROFILE.Localhost, "name with spaces"), "name with spaces"),
        (cri.LinuxContainerSecurityContext(apparmor_profile="localhost/web"), "web"),
        (context(PROFILE.Unconfined), ""),
        (cri.LinuxContainerSecurityContext(apparmor_profile="unconfined"), ""),
        (cri.LinuxContainerSecurityContext(privileged=True), ""),
    ],
)
def test_loaded_profile_of_the_host_is_applied(
    host: Path, security: cri.LinuxContainerSecurityContext, expected: str
) -> None:
    assert apparmor_profile(security, CRUN, host) == expected


@pytest.mark.parametrize("name", ["absent", "we", "web (enforce)"])
def test_profile_that_is_not_loaded_is_rejected(host: Path, name: str) -> None:
    with pytest.raises(FailedPrecondition) as caught:
        apparmor_profile(context(PROFILE.Localhost, name), CRUN, host)

    assert str(caught.value) == f"AppArmor profile {name} is not loaded on the host"


def test_profile_is_rejected_where_the_loaded_ones_are_unknown(host: Path) -> None:
    (host / "kernel/security/apparmor/profiles").unlink()

    with pytest.raises(FailedPrecondition, match="list of loaded profiles: No such file"):
        apparmor_profile(context(PROFILE.Localhost, "web"), CRUN, host)


def test_built_in_runner_cannot_apply_profiles(host: Path) -> None:
    with pytest.raises(FailedPrecondition, match="requires crun or runc"):
        apparmor_profile(context(PROFILE.Localhost, "web"), Runner(OWN, ("own",)), host)


DEFAULTS = [
    context(PROFILE.RuntimeDefault),
    cri.LinuxContainerSecurityContext(apparmor_profile="runtime/default"),
    cri.LinuxContainerSecurityContext(),
]


@pytest.mark.parametrize("security", DEFAULTS)
def test_default_profile_is_loaded_once(host: Path, security: cri.LinuxContainerSecurityContext) -> None:
    profiles, loads = host / "kernel/security/apparmor/profiles", []

    def load() -> None:
        loads.append(DEFAULT_NAME)
        profiles.write_text(f"{LOADED}{DEFAULT_NAME} (enforce)\n")

    names = [apparmor_profile(security, CRUN, host, load) for _ in range(2)]

    assert (names, loads) == ([DEFAULT_NAME] * 2, [DEFAULT_NAME])


def fail() -> None:
    raise LoadError("apparmor_parser is not installed")


@pytest.mark.parametrize("security", DEFAULTS[:2])
def test_requested_default_profile_that_cannot_be_used_is_rejected(
    host: Path, security: cri.LinuxContainerSecurityContext
) -> None:
    with pytest.raises(FailedPrecondition, match="AppArmor profile RuntimeDefault: apparmor_parser is not installed"):
        apparmor_profile(security, CRUN, host, fail)
    with pytest.raises(FailedPrecondition, match="RuntimeDefault: it requires crun or runc"):
        apparmor_profile(security, Runner(OWN, ("own",)), host, fail)


@pytest.mark.parametrize("security", DEFAULTS)
def test_privileged_container_has_no_default_profile(host: Path, security: cri.LinuxContainerSecurityContext) -> None:
    privileged = cri.LinuxContainerSecurityContext(privileged=True)
    privileged.MergeFrom(security)

    assert apparmor_profile(privileged, CRUN, host, lambda: pytest.fail("the profile is loaded")) == ""


def test_container_without_request_runs_unconfined_where_the_default_fails(
    host: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert apparmor_profile(cri.LinuxContainerSecurityContext(), CRUN, host, fail) == ""
    assert "Running container without AppArmor profile" in caplog.text


def test_host_without_apparmor_supports_no_profiles_of_the_host(tmp_path: Path) -> None:
    with pytest.raises(FailedPrecondition, match="AppArmor profile web: the host does not support AppArmor"):
        apparmor_profile(context(PROFILE.Localhost, "web"), CRUN, tmp_path)
    assert apparmor_profile(context(PROFILE.RuntimeDefault), CRUN, tmp_path) == ""
