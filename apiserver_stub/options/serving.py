"""Command-line options for the secure port."""

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
_DEFAULT_STREAMS = 100
_MOST_STREAMS = (1 << 31) - 1


@dataclass(frozen=True, init=False, repr=False, eq=False)  # only a base of Options
class ServingOptions:
    """Values of the command-line options for the secure port."""

    bind_address: str = "0.0.0.0"  # noqa: S104 - upstream's default
    advertise_address: str = ""
    secure_port: int = 6443
    """0 selects a free port."""
    external_hostname: str = ""
    permit_address_sharing: bool = False
    permit_port_sharing: bool = False
    cors_allowed_origins: tuple[str, ...] = ()
    strict_transport_security_directives: tuple[str, ...] = ()
    http2_max_streams_per_connection: int = 0
    """0 or less: the default."""
    disable_http2_serving: bool = False
    goaway_chance: float = 0.0

    @property
    def http2_streams(self) -> int:
        """Maximum number of concurrent requests per HTTP/2 connection; 0 if only HTTP/1.1 is served."""
        if self.disable_http2_serving:
            return 0
        return max(self.http2_max_streams_per_connection, 0) or _DEFAULT_STREAMS


def declare(group: Group) -> None:
    group.add("bind-address", _address_or_blank, "IP address of the secure port. Default 0.0.0.0: all interfaces.")
    group.add("secure-port", values.integer, "HTTPS port. Default 6443.")
    group.add(
        "advertise-address",
        _address_or_blank,
        "Address advertised to clients. Default: the bind address, or that of the default route's interface.",
    )
    group.add("external-hostname", str, "Additional host name of the generated certificate.")
    group.add("permit-address-sharing", values.boolean, "Bind with SO_REUSEADDR.")
    group.add("permit-port-sharing", values.boolean, "Bind with SO_REUSEPORT.")
    group.add(
        "cors-allowed-origins",
        values.strings,
        "Regular expressions for allowed CORS origins, pinned to the host: //app[.]example(:|$).",
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
        f"Number of concurrent requests per HTTP/2 connection. Default 0: {_DEFAULT_STREAMS}.",
    )
    group.add("disable-http2-serving", values.boolean, "Serve only HTTP/1.1. Default false.")
    group.add(
        "goaway-chance",
        values.number,
        "Probability that an HTTP/2 response closes the connection with GOAWAY, at most 0.02, so that clients are "
        "rebalanced; 0.001 is a reasonable value. Not for a single server. Default 0.",
    )


def _address_or_blank(text: str) -> str:
    return values.address(text) if text else text


def check(options: ServingOptions) -> Iterator[str]:
    if not 1 <= options.secure_port <= 65535:
        rule = "must be between 1 and 65535, inclusive. It cannot be turned off with 0"
        yield f"--secure-port {options.secure_port} {rule}"
    if not 0 <= options.goaway_chance <= _MOST_GOAWAY_CHANCE:
        yield f"--goaway-chance can not be less than 0 or greater than {_MOST_GOAWAY_CHANCE}"
    elif options.goaway_chance and options.disable_http2_serving:
        yield "--goaway-chance requires HTTP/2; omit --disable-http2-serving or --goaway-chance"
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
