"""How requests for group versions of others reach the servers that extend this one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from apiserver_stub.options import values
from apiserver_stub.options.declare import Group

TITLE = "Extension API servers"


@dataclass(frozen=True)
class AggregationOptions:
    enable_aggregator_routing: bool = False
    aggregator_reject_forwarding_redirect: bool = True
    proxy_client_cert_file: Path | None = None
    proxy_client_key_file: Path | None = None


def declare(group: Group) -> None:
    group.add(
        "enable-aggregator-routing",
        values.boolean,
        "Connect to an endpoint of the service of an API service instead of to its cluster IP. Default false.",
    )
    group.add(
        "aggregator-reject-forwarding-redirect",
        values.boolean,
        "Answer 502 instead of passing a redirect of an extension API server on. Default true.",
    )
    group.add(
        "proxy-client-cert-file",
        Path,
        "Client certificate shown to extension API servers and admission webhooks. Default: none is shown.",
    )
    group.add("proxy-client-key-file", Path, "Key of that certificate.")


def check(options: AggregationOptions) -> Iterator[str]:
    if options.proxy_client_cert_file is not None and options.proxy_client_key_file is None:
        yield "--proxy-client-cert-file needs --proxy-client-key-file"
    if options.proxy_client_key_file is not None and options.proxy_client_cert_file is None:
        yield "--proxy-client-key-file needs --proxy-client-cert-file"
