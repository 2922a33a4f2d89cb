"""Lookup of the cgroups of pods and containers."""

from __future__ import annotations

from nodeagent.contracts.context import ProberContext
from nodeagent_plugins.stats.cgroups import CgroupReader, container_paths, path_of

_POD_ROOT = "kubepods"


class CgroupLocator:
    """Locates cgroups; paths are cached while the pod runs."""

    def __init__(self, context: ProberContext, cgroups: CgroupReader) -> None:
        self._context, self._cgroups = context, cgroups
        self._pods: dict[str, str] = {}
        self._containers: dict[str, str] = {}

    def pod(self, uid: str) -> str:
        """Return the cgroup of a pod; empty if it has none or is unknown."""
        known = self._pods.get(uid)
        if known is not None:
            return known
        if not self._context.config.cgroups_per_qos:
            return ""
        pod = self._context.pods.get(uid)
        parent = path_of(self._context.cgroups.parent_of(pod)) if pod is not None else ""
        if not parent or not self._cgroups.exists(parent):
            return ""
        self._pods[uid] = parent
        return parent

    def container(self, uid: str, container_id: str) -> str:
        """Return the cgroup of a container or sandbox; empty if it does not exist."""
        known = self._containers.get(container_id)
        if known is not None:
            return known
        pod = self._context.pods.get(uid)
        parent = self._context.cgroups.parent_of(pod) if pod is not None else ""
        for path in container_paths(parent, container_id):
            if self._cgroups.exists(path):
                self._containers[container_id] = path
                return path
        return ""

    def keep(self, uids: set[str], container_ids: set[str]) -> None:
        """Drop all other cache entries."""
        for known, kept in ((self._pods, uids), (self._containers, container_ids)):
            for gone in known.keys() - kept:
                del known[gone]

    def all_pods(self) -> str:
        """Return the cgroup of all pods; empty if that is the root."""
        config = self._context.config
        parts = [part for part in config.cgroup_root.split("/") if part]
        if config.cgroups_per_qos:
            parts.append(_POD_ROOT)
        if self._context.cgroups.driver == "systemd" and parts:
            unit = "-".join(part.removesuffix(".slice").replace("-", "_") for part in parts)
            return path_of(f"{unit}.slice")
        return "/" + "/".join(parts) if parts else ""
