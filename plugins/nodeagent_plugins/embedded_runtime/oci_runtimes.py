"""The programs that make containers: an OCI runtime if one is installed, else one of our own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nodeagent_plugins.embedded_runtime.helpers import launch
from nodeagent_plugins.embedded_runtime.host import Host, find_program

OWN = "own"
NAMES = ("crun", "runc", OWN)


@dataclass(frozen=True, slots=True)
class Runner:
    """A program with the command line of an OCI runtime."""

    name: str
    command: tuple[str, ...]

    def run(self, directory: Path, container_id: str, *, terminal: bool) -> list[str]:
        """Start the container in *directory*; its process id lands in ``pid``, errors in ``runner.log``."""
        # relative to the bundle, because a socket's path may be no longer than 108 bytes
        console = ["--console-socket", "console"] if terminal else []
        log = ["--log", str(directory / "runner.log"), "--log-format", "json"]
        bundle = ["--bundle", str(directory), "--pid-file", str(directory / "pid")]
        return [*self.command, *log, "run", "--detach", *bundle, *console, container_id]

    def execute(self, container_id: str, process: Path) -> list[str]:
        """Run what the file *process* describes inside a container, until it ends."""
        log = ["--log", f"{process}.log", "--log-format", "json"]
        return [*self.command, *log, "exec", "--process", str(process), "--pid-file", f"{process}.pid", container_id]

    def delete(self, container_id: str) -> list[str]:
        """Kill what is left of a container and forget it."""
        return [*self.command, "delete", "--force", container_id]

    def update(self, container_id: str) -> list[str]:
        """Change the limits of a container to those on standard input."""
        return [*self.command, "update", "--resources", "-", container_id]

    @property
    def filters_calls(self) -> bool:
        """Whether it can apply seccomp profiles."""
        return self.name != OWN


def choose_runner(requested: str, state: Path, host: Host) -> Runner:
    """Return the runner called *requested*, or the best there is when that is empty.

    :raises ValueError: the requested one is not installed, or cannot work here.
    """
    if requested and requested not in NAMES:
        raise ValueError(f'no runner "{requested}": it is one of {", ".join(NAMES)}')
    for name in (requested,) if requested else NAMES:
        if name == OWN:
            return Runner(OWN, tuple(launch.command("oci", "--root", str(state))))
        path = find_program(name)
        # without the right to make control groups only crun can be told not to try
        works = not host.mixed_cgroups if name == "crun" else bool(host.cgroup_version)
        if path and works and not host.chrooted:
            bare = ("--cgroup-manager=disabled",) if name == "crun" and not host.cgroup_version else ()
            return Runner(name, (path, "--root", str(state), *bare))
    raise ValueError(
        f"{requested} is not installed, or cannot work with the root or the control groups of this machine"
    )
