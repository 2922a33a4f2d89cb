"""Checks of a configuration against this host, for errors that otherwise prevent the start of the agent."""

from __future__ import annotations

from pathlib import Path

from nodeagent.contracts.configuration import NodeAgentConfiguration
from nodeagent.errors import Problem

CGROUPS = Path("/sys/fs/cgroup")
HINT = "if the file is for another host, use --other-host"


def host_problems(config: NodeAgentConfiguration, file: str, cgroups: Path = CGROUPS) -> list[Problem]:
    """Return the settings that name objects that this host lacks. Blocking."""
    name = config.cgroup_root.strip("/")
    if not name or config.cgroup_driver != "cgroupfs" or not cgroups.is_dir():
        return []  # systemd creates the slice.
    if (cgroups / name).is_dir() or any((controller / name).is_dir() for controller in cgroups.iterdir()):
        return []
    rule = f"cgroup does not exist on this host, and the agent does not create it: create it first; {HINT}"
    return [Problem(file, "cgroupRoot", config.cgroup_root, rule)]
