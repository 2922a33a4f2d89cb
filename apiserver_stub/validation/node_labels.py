"""Deprecated labels of nodes and their replacements."""

from __future__ import annotations

from functools import cache

from nodeagent.base.identity import Identity


def deprecation(key: str, identity: Identity) -> str:
    """Return the warning about the node label *key*; empty if it is not deprecated."""
    found = _deprecated(identity).get(key)
    return f'deprecated since {found[0]}; use "{found[1]}" instead' if found else ""


def replacement(key: str, identity: Identity) -> str:
    """Return the label that replaces the deprecated node label *key*; empty if it is not deprecated."""
    found = _deprecated(identity).get(key)
    return found[1] if found else ""


@cache
def _deprecated(identity: Identity) -> dict[str, tuple[str, str]]:
    """Return the release that deprecated each label, and the label that replaces it."""
    label = identity.label
    return {
        label("arch", "beta"): ("v1.14", label("arch")),
        label("os", "beta"): ("v1.14", label("os")),
        label("region", "failure-domain.beta"): ("v1.17", label("region", "topology")),
        label("zone", "failure-domain.beta"): ("v1.17", label("zone", "topology")),
        label("instance-type", "beta"): ("v1.17", label("instance-type", "node")),
    }
