"""DNS configuration of pods on this node, from the agent's configuration and the resolver file."""

from __future__ import annotations

import asyncio
from pathlib import Path

from nodeagent.contracts.context import StatsContext
from nodeagent.contracts.events import EventType
from nodeagent.contracts.runtime import DnsConfig
from nodeagent.errors import NodeAgentError
from nodeagent.model.pod import Pod
from nodeagent_plugins.pod_sync.dns import ClusterDns, make_dns, read_resolver, resolver_problems
from nodeagent_plugins.pod_sync.starting import host_ips

CACHE_SECONDS = 1.0
_Stamp = tuple[str, int, int, int]


class NodeDns:
    """Computes DNS configurations; the resolver file is read again if it changed.

    spec: config.resolvConf, config.clusterDNS, config.clusterDomain
    """

    def __init__(self, context: StatsContext) -> None:
        self._context = context
        self._stamp: _Stamp | None = None
        self._checked_at = float("-inf")
        self._host = DnsConfig()

    async def of(self, pod: Pod) -> DnsConfig:
        """Return the DNS configuration of *pod*; exceeded limits and missing servers are recorded as events.

        :raises NodeAgentError: the resolver file is not readable.
        """
        config, record = self._context.config, self._context.recorder.record
        cluster = ClusterDns(
            servers=config.cluster_dns,
            domain=config.cluster_domain,
            resolver_file=config.resolv_conf,
            node_ips=host_ips(self._context),
        )
        result = make_dns(pod, cluster, await self._resolver(cluster))
        if result.missing_cluster_dns:
            note = (
                f"pod {pod.name}_{pod.namespace}({pod.uid}) requests policy {pod.spec.dns_policy}, "
                "but clusterDNS is not configured on this node; it gets the policy Default"
            )
            record(pod.reference(), EventType.WARNING, "MissingClusterDNS", note)
            record(self._context.node_reference(), EventType.WARNING, "MissingClusterDNS", note)
        for sentence in result.cut:
            record(pod.reference(), EventType.WARNING, "DNSConfigForming", sentence)
        return result.config

    async def _resolver(self, cluster: ClusterDns) -> DnsConfig:
        if not cluster.resolver_file:
            return DnsConfig()
        now = self._context.clock.now()
        if now - self._checked_at < CACHE_SECONDS:
            return self._host
        stamp, host = await asyncio.to_thread(_read_if_changed, cluster.resolver_file, self._stamp)
        self._checked_at = now
        if host is not None:
            self._stamp, self._host = stamp, host
            for sentence in resolver_problems(host, with_domain=bool(cluster.domain)):
                reference = self._context.node_reference()
                self._context.recorder.record(reference, EventType.WARNING, "CheckLimitsForResolvConf", sentence)
        return self._host


def _read_if_changed(path: str, known: _Stamp | None) -> tuple[_Stamp, DnsConfig | None]:
    """Return the file's stamp, and its content unless the stamp equals *known*."""
    try:
        found = Path(path).stat()
    except OSError as error:
        raise NodeAgentError(f"resolver file {path}: {error.strerror or error}", transient=True) from error
    stamp = (path, found.st_ino, found.st_mtime_ns, found.st_size)
    return stamp, None if stamp == known else read_resolver(path)
