"""Settings of the kinds."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network

from nodeagent.base.gates import FeatureGates
from nodeagent.base.identity import Identity
from nodeagent.base.release import OLDEST, Release
from nodeagent.base.structs import Struct

Network = IPv4Network | IPv6Network


class KindSettings(Struct, frozen=True):
    """Settings that change the set of served kinds, or their rules."""

    gates: FeatureGates
    allow_privileged: bool
    """``True`` if containers may be privileged (spec: opt.allow-privileged)."""
    service_networks: Sequence[Network]
    service_node_ports: range
    identity: Identity
    """Names of the server, such as the domain of its API groups."""
    compatibility_version: Release = OLDEST
    """Kubernetes release whose API the server has."""
