"""Command-line options for connections to node agents and for egress."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from apiserver_stub.options import values
from apiserver_stub.options.declare import Extend, Group

TITLE = "Connections to node agents"
_TYPES = ("Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP")


@dataclass(frozen=True, init=False, repr=False, eq=False)  # only a base of Options
class NodeAgentOptions:
    """Values of the command-line options for connections to node agents and for egress."""

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
        "CA bundle for the serving certificates of agents. Default: they are not verified.",
    )
    group.add(
        "nodeagent-client-certificate",
        Path,
        "Client certificate presented to agents. Default: generated, and signed by the generated CA "
        "certs/nodeagent-client-ca.crt in --data-dir.",
    )
    group.add("nodeagent-client-key", Path, "Private key of --nodeagent-client-certificate.")
    group.add(
        "nodeagent-preferred-address-types",
        values.strings,
        f"Types of node addresses in order of preference. Default {','.join(_TYPES)}.",
        action=Extend,
    )
    group.add(
        "nodeagent-timeout",
        values.duration,
        "Timeout for connecting to an agent. Default 5s; 0 is unlimited.",
        "nodeagent_timeout_seconds",
    )
    group.add(
        "egress-selector-config-file",
        Path,
        "EgressSelectorConfiguration file: direct connections, an HTTP CONNECT proxy or konnectivity for nodes, pods "
        "and services, for webhooks, and for the store.",
    )


def check(options: NodeAgentOptions) -> Iterator[str]:
    if (options.nodeagent_client_certificate is None) != (options.nodeagent_client_key is None):
        yield "--nodeagent-client-certificate and --nodeagent-client-key must be specified together"
    if options.nodeagent_timeout_seconds < 0:
        yield "--nodeagent-timeout must not be negative"
    if not options.nodeagent_preferred_address_types:
        yield "--nodeagent-preferred-address-types must contain at least one type"
