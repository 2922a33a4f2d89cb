"""How this server reaches the agents of nodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from apiserver_stub.options import values
from apiserver_stub.options.declare import Extend, Group

TITLE = "Connections to node agents"
_TYPES = ("Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP")


@dataclass(frozen=True)
class NodeAgentOptions:
    nodeagent_certificate_authority: Path | None = None
    nodeagent_client_certificate: Path | None = None
    nodeagent_client_key: Path | None = None
    nodeagent_preferred_address_types: tuple[str, ...] = _TYPES
    nodeagent_timeout_seconds: float = 5.0
    egress_selector_config_file: Path | None = None


def declare(group: Group) -> None:
    group.add(
        "nodeagent-certificate-authority",
        Path,
        "CA file that the certificates of agents must be signed by. Default: they are not verified.",
    )
    group.add(
        "nodeagent-client-certificate",
        Path,
        "Client certificate shown to agents. Default: one of an authority that this server made, in --data-dir "
        "certs/nodeagent-client-ca.crt.",
    )
    group.add("nodeagent-client-key", Path, "Key of that certificate.")
    group.add(
        "nodeagent-preferred-address-types",
        values.strings,
        f"Types of node addresses, the best first. Default {','.join(_TYPES)}.",
        action=Extend,
    )
    group.add(
        "nodeagent-timeout",
        values.duration,
        "How long a connection to an agent may take to come about. Default 5s; 0 is no limit.",
        "nodeagent_timeout_seconds",
    )
    group.add(
        "egress-selector-config-file",
        Path,
        "EgressSelectorConfiguration: the way to nodes, pods and services, direct or through an HTTP CONNECT proxy.",
    )


def check(options: NodeAgentOptions) -> Iterator[str]:
    if (options.nodeagent_client_certificate is None) != (options.nodeagent_client_key is None):
        yield "--nodeagent-client-certificate and --nodeagent-client-key go together"
    if options.nodeagent_timeout_seconds < 0:
        yield "--nodeagent-timeout must not be negative"
    if not options.nodeagent_preferred_address_types:
        yield "--nodeagent-preferred-address-types must name at least one type"
