"""Capabilities of a container."""

from __future__ import annotations

from collections.abc import Iterable

from nodeagent_plugins.embedded_runtime.errors import InvalidArgument
from nodeagent_plugins.embedded_runtime.helpers.capability_names import NAMES

DEFAULT = frozenset(
    (
        *("CHOWN", "DAC_OVERRIDE", "FSETID", "FOWNER", "MKNOD", "NET_RAW", "SETGID", "SETUID", "SETFCAP", "SETPCAP"),
        *("NET_BIND_SERVICE", "SYS_CHROOT", "KILL", "AUDIT_WRITE"),
    )
)
"""Default capabilities of a container."""


def compute_capabilities(
    add: Iterable[str], drop: Iterable[str], *, privileged: bool, held: Iterable[str]
) -> tuple[str, ...]:
    """Return the capabilities of a container, with their prefix, in the kernel's order.

    :param held: capabilities of the runtime, which are the maximum.
    :raises InvalidArgument: a capability is unknown.
    """
    added, dropped, ours = set(map(_plain, add)), set(map(_plain, drop)), set(held)
    if unknown := sorted((added | dropped) - {*NAMES, "ALL"}):
        raise InvalidArgument(f"unknown capability {', '.join(unknown)}")
    if privileged:
        granted = set(NAMES)
    else:
        granted = set(NAMES) if "ALL" in added else set() if "ALL" in dropped else set(DEFAULT)
        granted = (granted | (added - {"ALL"})) - dropped
    return tuple(f"CAP_{name}" for name in NAMES if name in granted & ours)


def from_mask(mask: int) -> frozenset[str]:
    """Return the names of the capabilities in a bit *mask*."""
    return frozenset(name for number, name in enumerate(NAMES) if mask >> number & 1)


def _plain(name: str) -> str:
    return name.upper().removeprefix("CAP_")
