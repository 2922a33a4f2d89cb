"""Who asks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from apiserver_stub.options import values
from apiserver_stub.options.declare import Group

TITLE = "Authentication"


@dataclass(frozen=True)
class AuthenticationOptions:
    anonymous_auth: bool = True
    client_ca_file: Path | None = None
    token_auth_file: Path | None = None
    service_account_issuer: str = "https://kubernetes.default.svc"
    service_account_jwks_uri: str = ""
    """Where the issuer document says that the keys are; empty means at this server."""


def declare(group: Group) -> None:
    group.add(
        "anonymous-auth", values.boolean, "Let requests without credentials in as system:anonymous. Default true."
    )
    group.add("client-ca-file", Path, "Authorities whose client certificates are accepted.")
    group.add("token-auth-file", Path, "CSV file: token, user name, uid, groups.")
    group.add("service-account-issuer", str, "Issuer of service account tokens.")
    group.add("service-account-jwks-uri", str, "Where the issuer document says that the keys are. Default: here.")


def check(options: AuthenticationOptions) -> Iterator[str]:
    if (uri := options.service_account_jwks_uri) and urlsplit(uri).scheme != "https":
        yield f"service-account-jwks-uri requires https scheme, parsed as: {uri}"
    if not options.service_account_issuer:
        yield "service-account-issuer should not be an empty string"
