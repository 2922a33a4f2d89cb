"""OCI runtimes: an installed one, or the built-in one."""

from __future__ import annotations

from pathlib import Path

from nodeagent.base.structs import Struct
from nodeagent_plugins.embedded_runtime.helpers import launch
from nodeagent_plugins.embedded_runtime.host import Host, find_executable

OWN = "own"
NAMES = ("crun", "runc", OWN)


class Runner(Struct, frozen=True):
    """Command line of an OCI runtime."""

    name: str
    command: tuple[str, ...]

    def run(self, directory: Path, container_id: str, *, terminal: bool) -> list[str]:
        """Start the container in *directory*; its process ID is written to ``pid``, errors to ``runner.log``."""
        # Relative to the bundle, because the path of a socket is limited to 108 bytes.
        console = ["--console-socket", "console"] if terminal else []
        log = ["--log", str(directory / "runner.log"), "--log-format", "json"]
        bundle = ["--bundle", str(directory), "--pid-file", str(directory / "pid")]
        return [*self.command, *log, "run", "--detach", *bundle, *console, container_id]

    def execute(self, container_id: str, process: Path) -> list[str]:
        """Execute the process in the file *process* in a container until it exits."""
        log = ["--log", f"{process}.log", "--log-format", "json"]
        return [*self.command, *log, "exec", "--process", str(process), "--pid-file", f"{process}.pid", container_id]

    def delete(self, container_id: str) -> list[str]:
        """Kill the remaining processes of a container and delete it."""
        return [*self.command, "delete", "--force", container_id]

    def update(self, container_id: str) -> list[str]:
        """Update the limits of a container to those on standard input."""
        return [*self.command, "update", "--resources", "-", container_id]

    @property
    def filters_calls(self) -> bool:
        """Return whether it supports seccomp profiles."""
        return self.name != OWN

    @property
    def applies_apparmor(self) -> bool:
        """Return whether it supports AppArmor profiles."""
        return self.name != OWN


def choose_runner(requested: str, state: Path, host: Host) -> Runner:
    """Return the runtime called *requested*, or the best supported one if it is empty.

    :raises ValueError: the runtime is unknown, not installed or not supported on this host.
    """
    if requested and requested not in NAMES:
        raise ValueError(f'unknown runner "{requested}": must be one of {", ".join(NAMES)}')
    for name in (requested,) if requested else NAMES:
        if name == OWN:
            return Runner(OWN, tuple(launch.command("own_copy", "oci", "--root", str(state))))
        path = find_executable(name)
        # Only crun can be configured not to use cgroups.
        works = not host.mixed_cgroups if name == "crun" else bool(host.cgroup_version)
        if path and works and not host.chrooted:
            bare = ("--cgroup-manager=disabled",) if name == "crun" and not host.cgroup_version else ()
            return Runner(name, (path, "--root", str(state), *bare))
    raise ValueError(f"{requested} is not installed, or does not support the root or the cgroups of this host")
