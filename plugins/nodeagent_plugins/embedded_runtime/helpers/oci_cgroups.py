"""Cgroups of a container for the built-in OCI runtime."""

from __future__ import annotations

import errno
import os
import signal
import time
from typing import Any

ROOT = "/sys/fs/cgroup"
KILL_SECONDS = 5.0
Groups = dict[str, str]
"""Directories by controller; version 2 has an empty name."""


def make(path: str, resources: dict[str, Any]) -> Groups:
    """Create the cgroups at *path* with the limits *resources*.

    :raises OSError: the host lacks a controller, or the kernel rejects a limit.
    """
    if not path:
        return {}
    groups = {}
    if os.path.exists(f"{ROOT}/cgroup.controllers"):
        groups[""] = _make_v2(path)
    else:
        for controller in sorted(os.listdir(ROOT)):
            directory = f"{ROOT}/{controller}"
            if (
                os.path.islink(directory)
                or controller == "unified"
                or not os.access(f"{directory}/cgroup.procs", os.W_OK)
            ):
                continue
            groups[controller] = _make_v1(directory, path)
    limit(groups, resources)
    return groups


def join(groups: Groups, pid: int) -> None:
    """Move a process into the cgroups."""
    for directory in groups.values():
        _write(f"{directory}/cgroup.procs", str(pid))


def limit(groups: Groups, resources: dict[str, Any]) -> None:
    """Set the limits *resources* in OCI format."""
    if not groups:
        return
    pairs = _limits_v2(resources) if "" in groups else _limits_v1(resources)
    for controller, name, value in pairs:
        directory = groups.get("" if "" in groups else controller)
        if directory is None or not os.path.exists(f"{directory}/{name}"):
            raise OSError(errno.ENOSYS, f"limit {name}: the host has no such controller")
        try:
            _write(f"{directory}/{name}", value)
        except OSError as error:
            raise OSError(error.errno, f"limit {name}={value}: {error.strerror}") from error


def remove(groups: Groups) -> None:
    """Kill all processes in the cgroups and remove them."""
    until = time.monotonic() + KILL_SECONDS
    while time.monotonic() < until:
        pids = {pid for directory in groups.values() for pid in _processes(directory)}
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        left = False
        for directory in groups.values():
            try:
                os.rmdir(directory)
            except FileNotFoundError:
                pass
            except OSError:
                left = True
        if not left:
            return
        time.sleep(0.01)


def _make_v1(root: str, path: str) -> str:
    directory = root
    for part in path.strip("/").split("/"):
        above, directory = directory, f"{directory}/{part}"
        try:
            os.mkdir(directory)
        except FileExistsError:
            continue
        for name in ("cpuset.cpus", "cpuset.mems"):  # A new cgroup rejects processes while these are empty.
            if os.path.exists(f"{directory}/{name}"):
                with open(f"{above}/{name}") as file:
                    _write(f"{directory}/{name}", file.read().strip())
    return directory


def _make_v2(path: str) -> str:
    directory = ROOT
    for part in path.strip("/").split("/"):
        with open(f"{directory}/cgroup.controllers") as file:
            controllers = file.read().split()
        for controller in controllers:
            try:
                _write(f"{directory}/cgroup.subtree_control", f"+{controller}")
            except OSError:  # The controller is in use by cgroup v1; setting its limits fails.
                pass
        directory = f"{directory}/{part}"
        os.makedirs(directory, exist_ok=True)
    return directory


def _limits_v1(resources: dict[str, Any]) -> list[tuple[str, str, str]]:
    cpu, memory = resources.get("cpu") or {}, resources.get("memory") or {}
    found = [
        ("cpu", name, str(cpu[key]))
        for key, name in (("shares", "cpu.shares"), ("period", "cpu.cfs_period_us"), ("quota", "cpu.cfs_quota_us"))
        if cpu.get(key)
    ]
    found += [("cpuset", f"cpuset.{key}", cpu[key]) for key in ("cpus", "mems") if cpu.get(key)]
    if memory.get("limit"):
        found.append(("memory", "memory.limit_in_bytes", str(memory["limit"])))
    if memory.get("swap"):
        found.append(("memory", "memory.memsw.limit_in_bytes", str(memory["swap"])))
    for pages in resources.get("hugepageLimits") or ():
        found.append(("hugetlb", f"hugetlb.{pages['pageSize']}.limit_in_bytes", str(pages["limit"])))
    for rule in resources.get("devices") or ():
        numbers = f"{rule.get('major', '*')}:{rule.get('minor', '*')}"
        text = "a" if "type" not in rule else f"{rule['type']} {numbers} {rule.get('access', 'rwm')}"
        found.append(("devices", "devices.allow" if rule["allow"] else "devices.deny", text))
        if text == "a" and not rule["allow"]:
            found += [("devices", "devices.allow", usual) for usual in USUAL_DEVICES]
    return found


USUAL_DEVICES = (
    *("c *:* m", "b *:* m", "c 1:3 rwm", "c 1:5 rwm", "c 1:7 rwm", "c 1:8 rwm", "c 1:9 rwm", "c 5:0 rwm", "c 5:1 rwm"),
    *("c 5:2 rwm", "c 136:* rwm"),
)
"""null, zero, full, random, urandom, tty, console, ptmx, terminals; nodes of any device can be created."""


def _limits_v2(resources: dict[str, Any]) -> list[tuple[str, str, str]]:
    cpu, memory = resources.get("cpu") or {}, resources.get("memory") or {}
    found = []
    if cpu.get("shares"):
        found.append(("", "cpu.weight", str(1 + (max(2, cpu["shares"]) - 2) * 9999 // 262142)))
    if cpu.get("quota"):
        quota = cpu["quota"] if cpu["quota"] > 0 else "max"
        found.append(("", "cpu.max", f"{quota} {cpu.get('period') or 100000}"))
    found += [("", f"cpuset.{key}", cpu[key]) for key in ("cpus", "mems") if cpu.get(key)]
    if memory.get("limit"):
        found.append(("", "memory.max", str(memory["limit"])))
    if memory.get("swap"):
        found.append(("", "memory.swap.max", str(max(0, memory["swap"] - memory.get("limit", 0)))))
    for pages in resources.get("hugepageLimits") or ():
        found.append(("", f"hugetlb.{pages['pageSize']}.max", str(pages["limit"])))
    return found + [("", name, value) for name, value in (resources.get("unified") or {}).items()]


def _processes(directory: str) -> list[int]:
    try:
        with open(f"{directory}/cgroup.procs") as file:
            return [int(line) for line in file]
    except OSError:
        return []


def _write(path: str, value: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, value.encode())
    finally:
        os.close(descriptor)
