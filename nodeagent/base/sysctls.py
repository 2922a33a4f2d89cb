"""Syntax of the names of kernel parameters. No I/O."""

from __future__ import annotations

import re

_SEGMENT = r"[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_NAME = rf"({_SEGMENT}[\./])*{_SEGMENT}"
_name = re.compile(_NAME)
_LIMIT = 253
_SWAPPED = str.maketrans("./", "/.")


def sysctl_name_problems(value: str) -> list[str]:
    """Return why *value* is not the name of a kernel parameter, its segments joined by ``.`` or ``/``."""
    if len(value) <= _LIMIT and _name.fullmatch(value):
        return []
    return [f"must have at most {_LIMIT} characters and match regex ^{_NAME}$"]


def normalize_sysctl(name: str) -> str:
    """Return *name* with dots between its segments, and slashes for dots inside one: ``net.ipv4.conf.eth0/1.mtu``.

    The first separator of *name* is the one between its segments.
    """
    first = next((character for character in name if character in "./"), ".")
    return name if first == "." else name.translate(_SWAPPED)
