"""Where the server listens."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from apiserver_stub.options import values
from apiserver_stub.options.declare import Extend, Group

TITLE = "Serving"
EVERYWHERE = ("", "0.0.0.0", "::")  # noqa: S104 - compared, not bound
"""Addresses that mean all interfaces."""
_MOST_GOAWAY_CHANCE = 0.02
_MOST_STREAMS = (1 << 31) - 1


@dataclass(frozen=True)
class ServingOptions:
    bind_address: str = "0.0.0.0"  # noqa: S104 - as document 2 has it; what is started here names its own
    advertise_address: str = ""
    secure_port: int = 6443
    """0 takes a free port."""
    external_hostname: str = ""
    permit_address_sharing: bool = False
    permit_port_sharing: bool = False
    cors_allowed_origins: tuple[str, ...] = ()
    strict_transport_security_directives: tuple[str, ...] = ()
    http2_max_streams_per_connection: int = 0
    """0 and less: HTTP/1.1 alone."""
    goaway_chance: float = 0.0


def declare(group: Group) -> None:
    group.add("bind-address", _address_or_blank, "IP address of the secure port. Default 0.0.0.0: all.")
    group.add("secure-port", values.integer, "HTTPS port; 0 takes a free one. Default 6443.")
    group.add(
        "advertise-address",
        _address_or_blank,
        "Address that clients are told. Default: the bind address, or that of the interface that leads out.",
    )
    group.add("external-hostname", str, "Host name that the generated certificate names as well.")
    group.add("permit-address-sharing", values.boolean, "Bind with SO_REUSEADDR.")
    group.add("permit-port-sharing", values.boolean, "Bind with SO_REUSEPORT.")
    group.add(
        "cors-allowed-origins",
        values.strings,
        "Regular expressions for the origins of pages that may call, pinned to the host: //app[.]example(:|$).",
        action=Extend,
    )
    group.add(
        "strict-transport-security-directives",
        values.strings,
        "Directives of the Strict-Transport-Security header: max-age=N, includeSubDomains, preload.",
        action=Extend,
    )
    group.add(
        "http2-max-streams-per-connection",
        values.integer,
        "Offer HTTP/2 and serve so many requests of one connection at a time. Default 0: HTTP/1.1 alone, which is "
        "faster here and lacks nothing.",
    )
    group.add(
        "goaway-chance",
        values.number,
        "Part of the requests over HTTP/2, at most 0.02, with whose answer clients are told to connect anew, so that "
        "a load balancer spreads them; 0.001 is a good start. Not for a single server. Default 0.",
    )


def _address_or_blank(text: str) -> str:
    return values.address(text) if text else text


def check(options: ServingOptions) -> Iterator[str]:
    if not 0 <= options.secure_port <= 65535:
        yield f"--secure-port {options.secure_port} must be between 1 and 65535, inclusive (0 takes a free port)"
    if not 0 <= options.goaway_chance <= _MOST_GOAWAY_CHANCE:
        yield f"--goaway-chance can not be less than 0 or greater than {_MOST_GOAWAY_CHANCE}"
    elif options.goaway_chance and options.http2_max_streams_per_connection <= 0:
        yield (
            "--goaway-chance acts on HTTP/2, which this server speaks with --http2-max-streams-per-connection; "
            "give that a number above 0, or leave this out"
        )
    if options.http2_max_streams_per_connection > _MOST_STREAMS:
        yield f"--http2-max-streams-per-connection must not be greater than {_MOST_STREAMS}"
    for origin in options.cors_allowed_origins:
        try:
            re.compile(origin)
        except re.error as error:
            yield f"--cors-allowed-origins has an invalid regular expression: {origin}: {error}"
            continue
        if not any(mark in origin for mark in ("^", "//")) or not any(mark in origin for mark in ("$", ":")):
            yield (
                "--cors-allowed-origins has an invalid regular expression: regular expression does not pin to "
                f"start/end of host in the origin header, help: {origin} needs ^ or // and $ or :"
            )
    for directive in options.strict_transport_security_directives:
        if not re.fullmatch(r"max-age=\d+|includeSubDomains|preload", directive):
            yield (
                "--strict-transport-security-directives invalid, allowed values: max-age=expireTime, "
                "includeSubDomains, preload. see https://tools.ietf.org/html/rfc6797#section-6.1 for more information"
            )
            break
