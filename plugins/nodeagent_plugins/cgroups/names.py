"""Cgroup names of pods and QoS classes for both drivers. No I/O."""

from __future__ import annotations

from enum import StrEnum

from nodeagent.model.qos import QosClass

POD_ROOT = "kubepods"
POD_PREFIX = "pod"
PROCESS_ROOT = "nodeagent_plugins"
"""Parent of the cgroups of processes outside of pods; with underscores, which systemd keeps in a slice."""

CgroupName = tuple[str, ...]
"""The components of a cgroup's path from the root of the hierarchy."""


class Driver(StrEnum):
    """Component that manages cgroups (spec: config.cgroupDriver)."""

    CGROUPFS = "cgroupfs"
    SYSTEMD = "systemd"


def parse_name(path: str) -> CgroupName:
    """Return the components of an absolute cgroup name such as ``/a/b``."""
    return tuple(part for part in path.split("/") if part)


def class_name(root: CgroupName, qos: QosClass) -> CgroupName:
    """Return the cgroup of the pods of a class."""
    return (*root, POD_ROOT) if qos is QosClass.GUARANTEED else (*root, POD_ROOT, qos.lower())


def pod_name(root: CgroupName, qos: QosClass, pod_uid: str) -> CgroupName:
    """Return the cgroup of one pod."""
    return (*class_name(root, qos), POD_PREFIX + pod_uid)


def process_name(root: CgroupName, name: str) -> CgroupName:
    """Return the cgroup of processes of the agent that do not belong to a pod."""
    return (*root, PROCESS_ROOT, name)


def cgroupfs_path(name: CgroupName) -> str:
    """Return the name in the notation of the cgroupfs driver and its runtimes."""
    return "/" + "/".join(name)


def slice_name(name: CgroupName) -> str:
    """Return the systemd unit: every ``-`` of a component becomes ``_``, components are joined by ``-``."""
    return "-".join(part.removesuffix(".slice").replace("-", "_") for part in name) + ".slice"


def slice_path(name: CgroupName) -> CgroupName:
    """Return the path of the systemd unit: below one slice for each of its prefixes."""
    return tuple(slice_name(name[: i + 1]) for i in range(len(name)))


def parse_slice(path: str) -> CgroupName:
    """Return the components of a slice in the form ``/a.slice/a-b.slice``, ``/a-b.slice`` or ``/a/b``."""
    parts = parse_name(path)
    if parts and parts[-1].endswith(".slice"):
        return tuple(part.replace("_", "-") for part in parts[-1].removesuffix(".slice").split("-"))
    return parts


def pod_uid(directory: str, above: CgroupName, driver: Driver) -> str | None:
    """Return the UID of the pod with the given *directory* below *above*; ``None`` if it is not a pod's."""
    if driver is Driver.CGROUPFS:
        uid = directory.removeprefix(POD_PREFIX)
        return uid if uid != directory else None
    prefix = slice_name(above).removesuffix(".slice") + "-" + POD_PREFIX
    if not directory.startswith(prefix) or not directory.endswith(".slice"):
        return None
    return directory.removeprefix(prefix).removesuffix(".slice").replace("_", "-")
