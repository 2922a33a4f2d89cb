"""Address that the server advertises."""

from __future__ import annotations

import socket

from apiserver_stub.options import Options
from apiserver_stub.options.serving import EVERYWHERE


def advertised_address(options: Options) -> str:
    """Return the advertised address: the configured one, the bind address, or that of the default route's interface."""
    for address in (options.advertise_address, options.bind_address):
        if address not in EVERYWHERE:
            return address
    family, outside = (
        (socket.AF_INET6, "2001:db8::1") if options.bind_address == "::" else (socket.AF_INET, "192.0.2.1")
    )
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((outside, 9))  # Sends no packet.
        except OSError:
            return "::1" if family == socket.AF_INET6 else "127.0.0.1"
        return str(probe.getsockname()[0])
