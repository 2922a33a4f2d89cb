"""Ports by number or name. No I/O."""

from __future__ import annotations

from collections.abc import Sequence

from nodeagent.model.pod import ContainerPort


def port_number(port: int | str, ports: Sequence[ContainerPort] | None) -> int | None:
    """Return the number of *port*, which may be the name of one of *ports*, or digits; otherwise ``None``."""
    if isinstance(port, int):
        return port
    for declared in ports or ():
        if declared.name == port:
            return declared.container_port
    return int(port) if port.isascii() and port.isdigit() else None
