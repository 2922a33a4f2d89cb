"""Where the server listens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from apiserver_stub.options import values
from apiserver_stub.options.declare import Group

TITLE = "Serving"


@dataclass(frozen=True)
class ServingOptions:
    bind_address: str = "127.0.0.1"
    """Not ``0.0.0.0`` as document 2 has it: what is started without options is for this machine alone."""
    advertise_address: str = ""
    secure_port: int = 6443
    """0 takes a free port."""
    external_hostname: str = ""
    permit_address_sharing: bool = False
    permit_port_sharing: bool = False


def declare(group: Group) -> None:
    group.add("bind-address", values.address, "IP address of the secure port. Default 127.0.0.1; 0.0.0.0 means all.")
    group.add("secure-port", values.integer, "HTTPS port; 0 takes a free one. Default 6443.")
    group.add("advertise-address", values.address, "Address that clients are told. Default: the bind address.")
    group.add("external-hostname", str, "Host name that the generated certificate names as well.")
    group.add("permit-address-sharing", values.boolean, "Bind with SO_REUSEADDR.")
    group.add("permit-port-sharing", values.boolean, "Bind with SO_REUSEPORT.")


def check(options: ServingOptions) -> Iterator[str]:
    if not 0 <= options.secure_port <= 65535:
        yield f"--secure-port {options.secure_port} must be between 1 and 65535, inclusive (0 takes a free port)"
