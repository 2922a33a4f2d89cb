"""Who asks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from apiserver_stub.options import values
from apiserver_stub.options.declare import Extend, Group

TITLE = "Authentication"
WEBHOOK_VERSIONS = ("v1", "v1beta1")
CONFIG_GATE = "StructuredAuthenticationConfiguration"


@dataclass(frozen=True)
class AuthenticationOptions:
    anonymous_auth: bool = True
    client_ca_file: Path | None = None
    token_auth_file: Path | None = None
    enable_bootstrap_token_auth: bool = False
    authentication_config: Path | None = None
    authentication_token_webhook_config_file: Path | None = None
    authentication_token_webhook_cache_ttl_seconds: float = 120.0
    authentication_token_webhook_version: str = "v1beta1"  # noqa: S105 - no password
    requestheader_client_ca_file: Path | None = None
    requestheader_allowed_names: tuple[str, ...] = ()
    requestheader_username_headers: tuple[str, ...] = ()
    requestheader_group_headers: tuple[str, ...] = ()
    requestheader_extra_headers_prefix: tuple[str, ...] = ()


def declare(group: Group) -> None:
    group.add(
        "anonymous-auth", values.boolean, "Let requests without credentials in as system:anonymous. Default true."
    )
    group.add("client-ca-file", Path, "Authorities whose client certificates are accepted.")
    group.add("token-auth-file", Path, "CSV file: token, user name, uid, groups.")
    group.add(
        "enable-bootstrap-token-auth", values.boolean, "Accept the tokens of bootstrap secrets in the system namespace."
    )
    group.add("authentication-config", Path, f"File of JWT authenticators; needs the feature gate {CONFIG_GATE}.")
    group.add("authentication-token-webhook-config-file", Path, "Connection file of the service that knows tokens.")
    group.add(
        "authentication-token-webhook-cache-ttl",
        values.duration,
        "How long answers of that service are remembered. Default 2m.",
        dest="authentication_token_webhook_cache_ttl_seconds",
    )
    group.add("authentication-token-webhook-version", str, "TokenReview version sent to it: v1beta1 (default) or v1.")
    group.add("requestheader-client-ca-file", Path, "Authorities of proxies that name users in headers.")
    for name, text in (
        ("allowed-names", "Common names of such proxies; empty means any that the authorities know."),
        ("username-headers", "Headers that name the user, such as X-Remote-User."),
        ("group-headers", "Headers that name groups, such as X-Remote-Group."),
        ("extra-headers-prefix", "Beginnings of headers with more about the user, such as X-Remote-Extra-."),
    ):
        group.add(f"requestheader-{name}", values.strings, text, action=Extend)


def check(options: AuthenticationOptions) -> Iterator[str]:
    version = options.authentication_token_webhook_version
    if version not in WEBHOOK_VERSIONS:
        rule = f"must be one of {', '.join(WEBHOOK_VERSIONS)}"
        yield f'authentication-token-webhook-version "{version}" is not supported: {rule}'
    for name in ("username", "group"):
        for header in getattr(options, f"requestheader_{name}_headers"):
            if not header.strip():
                yield f"empty value in requestheader-{name}-headers"
