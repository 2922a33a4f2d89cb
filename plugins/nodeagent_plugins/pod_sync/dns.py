"""DNS configuration of pods, from which the runtime writes ``/etc/resolv.conf``. No I/O except ``read_resolver``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from nodeagent.base.structs import Struct
from nodeagent.contracts.runtime import DnsConfig
from nodeagent.errors import NodeAgentError
from nodeagent.model.pod import Pod

MAX_SERVERS = 3
MAX_SEARCHES = 32
MAX_SEARCH_CHARACTERS = 2048
MAX_SEARCH_ENTRY = 253
_MAX_FILE_BYTES = 10 * 1024 * 1024
_CLUSTER_OPTION = "ndots:5"
_BLANK = re.compile(r"[ \t]+")


class ClusterDns(Struct, frozen=True):
    """DNS settings of the node for pods.

    spec: config.clusterDNS, config.clusterDomain, config.resolvConf
    """

    servers: Sequence[str] = ()
    domain: str = ""
    resolver_file: str = "/etc/resolv.conf"
    node_ips: Sequence[str] = ()
    """Addresses of the node, whose families select the local servers if there is no resolver file."""


class PodDns(Struct, frozen=True):
    """DNS configuration of one pod.

    :ivar cut: messages of the event about exceeded limits.
    :ivar missing_cluster_dns: the pod requests cluster DNS, but the node has no server configured.
    """

    config: DnsConfig
    cut: Sequence[str] = ()
    missing_cluster_dns: bool = False


def parse_resolver(text: str) -> DnsConfig:
    """Parse a resolver file: the last ``search`` line is used, options of the same name are merged."""
    servers: list[str] = []
    searches: list[str] = []
    options: list[str] = []
    for raw in text.splitlines():
        line = raw.partition("#")[0].partition(";")[0].strip()
        if not line:
            continue
        keyword, *values = _BLANK.split(line)
        if keyword == "nameserver" and values:
            servers.append(values[0])
        elif keyword == "search":
            searches = [_trimmed(name) for name in values if name != "."]
        elif keyword == "options":
            options = merge_options(options, values)
    return DnsConfig(tuple(servers), tuple(searches), tuple(options))


def read_resolver(path: str) -> DnsConfig:
    """Read the node's resolver file; an empty *path* returns an empty configuration.

    :raises NodeAgentError: the file is not readable.
    """
    if not path:
        return DnsConfig()
    try:
        with Path(path).open("rb") as file:
            return parse_resolver(file.read(_MAX_FILE_BYTES).decode("utf-8", "replace"))
    except OSError as error:
        raise NodeAgentError(f"resolver file {path}: {error.strerror or error}", transient=True) from error


def make_dns(pod: Pod, cluster: ClusterDns, host: DnsConfig) -> PodDns:
    """Return the DNS configuration of *pod*.

    :param host: configuration in the node's resolver file.
    """
    spec = pod.spec
    policy = spec.dns_policy
    uses_cluster_dns = policy == "ClusterFirstWithHostNet" or (policy == "ClusterFirst" and not spec.host_network)
    missing = uses_cluster_dns and not cluster.servers
    servers: list[str] = []
    searches: list[str] = []
    options: list[str] = []
    if uses_cluster_dns and not missing:
        servers = list(cluster.servers)
        if cluster.domain:
            searches = [f"{pod.namespace}.svc.{cluster.domain}", f"svc.{cluster.domain}", cluster.domain]
        searches = _unique([*searches, *host.searches])
        options = [_CLUSTER_OPTION]
    elif policy != "None":
        if cluster.resolver_file:
            servers, searches, options = list(host.servers), list(host.searches), list(host.options)
        else:
            servers, searches = _local_servers(cluster.node_ips), ["."]
    if (own := spec.dns_config) is not None:
        servers = _unique([*servers, *(own.nameservers or ())])
        searches = _unique([*searches, *(own.searches or ())])
        written = (f"{o.name}:{o.value}" if o.value else o.name for o in own.options or ())
        options = merge_options(options, [option for option in written if option])
    kept_servers, kept_searches, cut = _limit(servers, searches)
    return PodDns(DnsConfig(tuple(kept_servers), tuple(kept_searches), tuple(options)), cut, missing)


def merge_options(first: Iterable[str], second: Iterable[str]) -> list[str]:
    """Return the merged options; for equal names (``ndots:5``) the later one is used."""
    merged = {option.partition(":")[0]: option for option in first}
    merged |= {option.partition(":")[0]: option for option in second}
    return list(merged.values())


def resolver_problems(host: DnsConfig, *, with_domain: bool) -> list[str]:
    """Return messages about limits that the node's resolver file exceeds for pods.

    :param with_domain: a cluster domain adds three search entries.
    """
    limit = MAX_SEARCHES - 3 if with_domain else MAX_SEARCHES
    problems = []
    if len(host.searches) > limit:
        problems.append(
            f"Resolver file has {len(host.searches)} search entries, more than the {limit} that pods can use"
        )
    if len(" ".join(host.searches)) > MAX_SEARCH_CHARACTERS:
        problems.append(f"Resolver file has a search line of more than {MAX_SEARCH_CHARACTERS} characters")
    return problems


def _limit(servers: list[str], searches: list[str]) -> tuple[list[str], list[str], list[str]]:
    """Apply the limits of resolvers; return the remaining entries and messages about the omitted ones."""
    cut = []
    if len(servers) > MAX_SERVERS:
        servers = servers[:MAX_SERVERS]
        cut.append(
            "Nameserver limits were exceeded, some nameservers have been omitted, "
            f"the applied nameserver line is: {' '.join(servers)}"
        )
    kept = [name for name in searches if len(name) <= MAX_SEARCH_ENTRY][:MAX_SEARCHES]
    while kept and len(" ".join(kept)) > MAX_SEARCH_CHARACTERS:
        kept.pop()
    if len(kept) < len(searches):
        cut.append(
            "Search Line limits were exceeded, some search paths have been omitted, "
            f"the applied search line is: {' '.join(kept)}"
        )
    return servers, kept, cut


def _local_servers(ips: Sequence[str]) -> list[str]:
    return _unique("::1" if ":" in ip else "127.0.0.1" for ip in ips) or ["127.0.0.1"]


def _trimmed(name: str) -> str:
    return name.removesuffix(".")


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
