"""Topology of drivers as node labels. No I/O."""

from __future__ import annotations

from collections.abc import Mapping

from nodeagent.base import identity

MAX_SEGMENTS = 64
_TOPOLOGY_NAMES = ("zone", "region")


def check_topology(topology: Mapping[str, str], labels: Mapping[str, str]) -> None:
    """Check that the topology segments of a driver can become labels of the node.

    :param labels: the current labels.
    :raises ValueError: a label has another value, a node must not set it, or there are too many.
    """
    if len(topology) > MAX_SEGMENTS:
        raise ValueError(f"driver reported {len(topology)} topology segments, more than {MAX_SEGMENTS}")
    for key, value in sorted(topology.items()):
        if not _may_set(key):
            raise ValueError(f'driver reported topology key "{key}", which a node is not allowed to set')
        current = labels.get(key, value)
        if current != value:
            raise ValueError(
                f'detected topology value collision: driver reported "{key}":"{value}" '
                f'but existing label is "{key}":"{current}"'
            )


def _may_set(key: str) -> bool:
    """Return whether the admission plugin NodeRestriction permits a node to set the label *key*."""
    names = identity.current()
    known = {
        names.label("hostname"),
        names.label("os"),
        names.label("arch"),
        names.label("os", "beta"),
        names.label("arch", "beta"),
        names.label("instance-type", "node"),
        names.label("instance-type", "beta"),
        *(names.label(name, prefix) for name in _TOPOLOGY_NAMES for prefix in ("topology", "failure-domain.beta")),
    }
    prefix, slash, _ = key.rpartition("/")
    if key in known or not slash:
        return True
    platform, api = names.label_domain, names.api_domain
    if _within(prefix, f"node-restriction.{platform}"):
        return False
    if _within(prefix, f"kubelet.{platform}") or _within(prefix, f"node.{platform}"):
        return True
    return not _within(prefix, platform) and not _within(prefix, api)


def _within(prefix: str, domain: str) -> bool:
    return prefix == domain or prefix.endswith(f".{domain}")
