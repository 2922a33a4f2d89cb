"""CPU lists in the kernel's format: ``0-3,8``. No I/O."""

from __future__ import annotations

import re

_RANGE = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?", re.ASCII)


def parse_cpu_list(text: str) -> frozenset[int]:
    """Parse a CPU list; empty text is an empty set.

    :raises ValueError: the text is not a CPU list; the message has no subject.
    """
    cpus: set[int] = set()
    for part in text.split(",") if text.strip() else ():
        match = _RANGE.fullmatch(part.strip())
        first = int(match[1]) if match else 1
        last = int(match[2] or match[1]) if match else 0
        if last < first:
            raise ValueError("is not a CPU list such as 0-3,8")
        cpus.update(range(first, last + 1))
    return frozenset(cpus)
