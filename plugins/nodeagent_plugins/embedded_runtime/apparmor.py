"""AppArmor profiles of containers: profiles of the host, and the default profile, which is loaded when it is needed."""

from __future__ import annotations

import logging
import subprocess
from collections.abc import Callable
from pathlib import Path

from nodeagent.base.criproto import api_pb2 as cri
from nodeagent_plugins.embedded_runtime.errors import FailedPrecondition
from nodeagent_plugins.embedded_runtime.oci_runtimes import Runner

DEFAULT_NAME = "nodeagent-default"
# Everything that a container needs is allowed: its files are separate from those of the host. Operations that affect
# the host despite that are denied: mounts, and access to files of the kernel that namespaces do not separate.
DEFAULT_PROFILE = f"""\
profile {DEFAULT_NAME} flags=(attach_disconnected, mediate_deleted) {{
  capability,
  file,
  network,
  umount,
  unix,
  signal (receive),
  signal (send) peer={DEFAULT_NAME},
  ptrace peer={DEFAULT_NAME},

  deny mount,
  deny /proc/* w,
  deny /proc/{{kcore,kmem,mem,sysrq-trigger,timer_list}} rwklx,
  deny /proc/sys/kernel/{{core_pattern,hotplug,modprobe,sysrq}} wl,
  deny /sys/{{firmware,kernel/security}}/{{,**}} rwklx,
  deny /sys/{{block,bus,class,dev,devices,hypervisor,kernel,module,power}}/** wklx,
}}
"""
_SYSTEM = Path("/sys")
_LOAD_SECONDS = 30.0

_log = logging.getLogger(__name__)


class LoadError(Exception):
    """The default profile cannot be loaded; the message contains the reason."""


def load_default() -> None:
    """Load the default profile into the kernel. Blocking.

    :raises LoadError: ``apparmor_parser`` is not installed or failed.
    """
    command = ["apparmor_parser", "--replace", "--skip-cache"]
    try:
        done = subprocess.run(
            command, input=DEFAULT_PROFILE, capture_output=True, text=True, timeout=_LOAD_SECONDS, check=False
        )
    except FileNotFoundError as error:
        raise LoadError("apparmor_parser is not installed; install the package apparmor") from error
    except subprocess.TimeoutExpired as error:
        raise LoadError(f"apparmor_parser did not end within {_LOAD_SECONDS:g} s") from error
    if done.returncode:
        raise LoadError(f"apparmor_parser failed: {done.stderr.strip()[:500]}")
    _log.info("Loaded AppArmor profile", extra={"profile": DEFAULT_NAME})


def apparmor_profile(
    security: cri.LinuxContainerSecurityContext,
    runner: Runner,
    system: Path = _SYSTEM,
    load: Callable[[], None] = load_default,
) -> str:
    """Return the name of the AppArmor profile of a container; empty for unconfined. Blocking.

    Without a requested profile, the default one is used if it can be. OCI runtimes ignore a profile on a host without
    AppArmor, so the host is verified here.

    :param system: root of sysfs.
    :param load: loads the default profile; raises :class:`LoadError`.
    :raises FailedPrecondition: the host or runtime does not support the profile, or the profile is not loaded.
    """
    name = _localhost_profile(security)
    enabled = _is_enabled(system)
    if not name:
        return _default(security, runner, system, load) if enabled else ""
    if not enabled:
        raise FailedPrecondition(f"AppArmor profile {name}: the host does not support AppArmor")
    if not runner.applies_apparmor:
        raise FailedPrecondition(f"AppArmor profile {name} requires crun or runc; install one of them")
    if not _is_loaded(name, system):
        raise FailedPrecondition(f"AppArmor profile {name} is not loaded on the host")
    return name


def _default(
    security: cri.LinuxContainerSecurityContext, runner: Runner, system: Path, load: Callable[[], None]
) -> str:
    """Return the default profile, loaded; empty if the container must not or cannot have it.

    :raises FailedPrecondition: it is requested and cannot be used.
    """
    requested = _requests_default(security)
    if security.privileged or requested is False:
        return ""
    problem = ""
    if not runner.applies_apparmor:
        problem = "it requires crun or runc; install one of them"
    else:
        try:
            if not _is_loaded(DEFAULT_NAME, system):
                load()
        except (LoadError, FailedPrecondition) as error:
            problem = str(error)
    if not problem:
        return DEFAULT_NAME
    if requested:
        raise FailedPrecondition(f"AppArmor profile RuntimeDefault: {problem}")
    _log.warning("Running container without AppArmor profile", extra={"err": problem})
    return ""


def _requests_default(security: cri.LinuxContainerSecurityContext) -> bool | None:
    """Return whether the default profile is requested; ``None`` without a request."""
    if not security.HasField("apparmor"):
        text = security.apparmor_profile
        return text == "runtime/default" if text else None
    return security.apparmor.profile_type == cri.SecurityProfile.RuntimeDefault


def _localhost_profile(security: cri.LinuxContainerSecurityContext) -> str:
    """Return the name of the requested profile of the host, from the field or its older text form."""
    if not security.HasField("apparmor"):
        text = security.apparmor_profile
        return text.removeprefix("localhost/") if text.startswith("localhost/") else ""
    if security.apparmor.profile_type != cri.SecurityProfile.Localhost:
        return ""
    return security.apparmor.localhost_ref.removeprefix("localhost/")


def _is_loaded(name: str, system: Path) -> bool:
    """Return whether the kernel has a profile.

    :raises FailedPrecondition: the profiles of the kernel cannot be read.
    """
    try:
        loaded = (system / "kernel/security/apparmor/profiles").read_text()
    except OSError as error:
        raise FailedPrecondition(f"AppArmor profile {name}: list of loaded profiles: {error.strerror}") from error
    # A line is the name and the mode in parentheses; names may have spaces.
    return name in {line.rpartition(" (")[0] for line in loaded.splitlines()}


def _is_enabled(system: Path) -> bool:
    try:
        return (system / "module/apparmor/parameters/enabled").read_text().startswith("Y")
    except OSError:
        return False
