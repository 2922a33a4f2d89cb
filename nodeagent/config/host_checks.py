"""Checks of a configuration against this host, for errors that otherwise prevent the start of the agent."""

from __future__ import annotations

from pathlib import Path

from nodeagent.base.gates import FeatureGates
from nodeagent.base.swap import SWAPS, swap_areas
from nodeagent.contracts.configuration import NodeAgentConfiguration
from nodeagent.errors import Problem

CGROUPS = Path("/sys/fs/cgroup")
SYSTEMD = Path("/run/systemd/system")
HINT = "if the file is for another host, use --other-host"


def host_problems(
    config: NodeAgentConfiguration,
    gates: FeatureGates,
    file: str,
    cgroups: Path = CGROUPS,
    swaps: Path = SWAPS,
    systemd: Path = SYSTEMD,
) -> list[Problem]:
    """Return the settings that this host does not permit. Blocking."""
    problems = [_cgroup_root_problem(config, file, cgroups)]
    if config.cgroups_per_qos and config.cgroup_driver == "systemd" and not systemd.is_dir():
        rule = f"requires a host with systemd; otherwise set cgroupfs, also in the runtime; {HINT}"
        problems.append(Problem(file, "cgroupDriver", "systemd", rule))
    v1 = cgroups.is_dir() and not (cgroups / "cgroup.controllers").is_file()
    if config.fail_cgroup_v1 and v1:
        rule = f"does not permit this host, with cgroup v1: migrate it to cgroup v2, or set false; {HINT}"
        problems.append(Problem(file, "failCgroupV1", True, rule))
    if config.single_process_oom_kill is False and v1:
        rule = f"must not be explicitly set to false when using cgroup v1, as on this host; {HINT}"
        problems.append(Problem(file, "singleProcessOOMKill", False, rule))
    if config.fail_swap_on and not gates.enabled("NodeAgentInUserNamespace") and (areas := swap_areas(swaps)):
        rule = f"running with swap on is not supported: disable {', '.join(areas)}, or set false; {HINT}"
        problems.append(Problem(file, "failSwapOn", True, rule))
    return [problem for problem in problems if problem is not None]


def _cgroup_root_problem(config: NodeAgentConfiguration, file: str, cgroups: Path) -> Problem | None:
    name = config.cgroup_root.strip("/")
    if not name or config.cgroup_driver != "cgroupfs" or not cgroups.is_dir():
        return None  # systemd creates the slice.
    if (cgroups / name).is_dir() or any((controller / name).is_dir() for controller in cgroups.iterdir()):
        return None
    rule = f"cgroup does not exist on this host, and the agent does not create it: create it first; {HINT}"
    return Problem(file, "cgroupRoot", config.cgroup_root, rule)
