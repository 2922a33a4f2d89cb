"""Command-line options for the aggregation of extension API servers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from apiserver_stub.options import values
from apiserver_stub.options.declare import Group

TITLE = "Extension API servers"


@dataclass(frozen=True, init=False, repr=False, eq=False)  # only a base of Options
class AggregationOptions:
    """Values of the command-line options for the aggregation of extension API servers."""

    enable_aggregator_routing: bool = False
    aggregator_reject_forwarding_redirect: bool = True
    proxy_client_cert_file: Path | None = None
    proxy_client_key_file: Path | None = None


def declare(group: Group) -> None:
    group.add(
        "enable-aggregator-routing",
        values.boolean,
        "Connect to an endpoint of the Service of an APIService instead of its cluster IP. Default false.",
    )
    group.add(
        "aggregator-reject-forwarding-redirect",
        values.boolean,
        "Respond with 502 instead of forwarding a redirect of an extension API server. Default true.",
    )
    group.add(
        "proxy-client-cert-file",
        Path,
        "Client certificate presented to extension API servers and admission webhooks. Default: none.",
    )
    group.add("proxy-client-key-file", Path, "Private key of --proxy-client-cert-file.")


def check(options: AggregationOptions) -> Iterator[str]:
    if options.proxy_client_cert_file is not None and options.proxy_client_key_file is None:
        yield "--proxy-client-cert-file requires --proxy-client-key-file"
    if options.proxy_client_key_file is not None and options.proxy_client_cert_file is None:
        yield "--proxy-client-key-file requires --proxy-client-cert-file"
