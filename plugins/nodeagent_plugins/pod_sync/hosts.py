"""Host name and ``/etc/hosts`` of a pod."""

from __future__ import annotations

from collections.abc import Sequence

from nodeagent.errors import NodeAgentError
from nodeagent.model.pod import HostAlias, Pod

MAX_HOSTNAME = 63
MAX_FQDN = 64
_MANAGED = "# Kubernetes-managed hosts file.\n"
_MANAGED_HOST = "# Kubernetes-managed hosts file (host network).\n"
_LOCAL = (
    "127.0.0.1\tlocalhost\n"
    "::1\tlocalhost ip6-localhost ip6-loopback\n"
    "fe00::0\tip6-localnet\n"
    "fe00::0\tip6-mcastprefix\n"
    "fe00::1\tip6-allnodes\n"
    "fe00::2\tip6-allrouters\n"
)


def host_names(pod: Pod, cluster_domain: str) -> tuple[str, str]:
    """Return the short host name of *pod* and its domain, which is empty without a subdomain.

    spec: config.clusterDomain
    """
    if pod.spec.hostname_override is not None:
        return _truncated(pod.spec.hostname_override), ""
    hostname = pod.spec.hostname or _truncated(pod.name)
    if not pod.spec.subdomain:
        return hostname, ""
    return hostname, f"{pod.spec.subdomain}.{pod.namespace}.svc.{cluster_domain}"


def _truncated(name: str) -> str:
    return name[:MAX_HOSTNAME].rstrip("-.")


def kernel_hostname(pod: Pod, hostname: str, domain: str) -> str:
    """Return the kernel host name of *pod*'s processes.

    :raises NodeAgentError: the FQDN is requested and exceeds the kernel's limit.
    """
    if not pod.spec.set_hostname_as_fqdn or not domain:
        return hostname
    full = f"{hostname}.{domain}"
    if len(full) > MAX_FQDN:
        raise NodeAgentError(
            f"failed to construct FQDN from pod hostname and cluster domain, FQDN {full} is too long "
            f"({MAX_FQDN} characters is the max, {len(full)} characters requested)"
        )
    return full


def hosts_file(pod: Pod, ips: Sequence[str], hostname: str, domain: str, node_file: str = "") -> str:
    """Return the content of the hosts file.

    :param node_file: the node's hosts file, for pods in the host network.
    """
    aliases = _alias_lines(pod.spec.host_aliases or ())
    if pod.spec.host_network:
        return f"{_MANAGED_HOST}{node_file}{aliases}"
    names = f"{hostname}.{domain}\t{hostname}" if domain else hostname
    own = "".join(f"{ip}\t{names}\n" for ip in ips)
    return f"{_MANAGED}{_LOCAL}{own}{aliases}"


def _alias_lines(aliases: Sequence[HostAlias]) -> str:
    if not aliases:
        return ""
    lines = "".join("\t".join((alias.ip, *(alias.hostnames or ()))) + "\n" for alias in aliases)
    return f"\n# Entries added by HostAliases.\n{lines}"
