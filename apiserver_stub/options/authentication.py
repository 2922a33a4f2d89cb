"""Command-line options for authentication."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from apiserver_stub.options import values
from apiserver_stub.options.declare import Extend, Group

TITLE = "Authentication"
WEBHOOK_VERSIONS = ("v1", "v1beta1")
CONFIG_GATE = "StructuredAuthenticationConfiguration"
UID_GATE = "RemoteRequestHeaderUID"


@dataclass(frozen=True, init=False, repr=False, eq=False)  # only a base of Options
class AuthenticationOptions:
    """Values of the command-line options for authentication."""

    anonymous_auth: bool | None = None
    """``None`` if the option is not set, so that the configuration file can define it."""
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
    requestheader_uid_headers: tuple[str, ...] = ()
    requestheader_extra_headers_prefix: tuple[str, ...] = ()


def declare(group: Group) -> None:
    group.add(
        "anonymous-auth", values.boolean, "Authenticate requests without credentials as system:anonymous. Default true."
    )
    group.add("client-ca-file", Path, "CA bundle for client certificates.")
    group.add("token-auth-file", Path, "CSV file with static tokens: token, user name, uid, groups.")
    group.add(
        "enable-bootstrap-token-auth",
        values.boolean,
        "Accept bootstrap tokens, which are Secrets in the system namespace.",
    )
    group.add(
        "authentication-config",
        Path,
        f"AuthenticationConfiguration file with JWT authenticators; requires feature gate {CONFIG_GATE}.",
    )
    group.add("authentication-token-webhook-config-file", Path, "Kubeconfig file of the token authentication webhook.")
    group.add(
        "authentication-token-webhook-cache-ttl",
        values.duration,
        "Time for which responses of the webhook are cached. Default 2m.",
        dest="authentication_token_webhook_cache_ttl_seconds",
    )
    group.add(
        "authentication-token-webhook-version", str, "TokenReview version sent to the webhook: v1beta1 (default) or v1."
    )
    group.add("requestheader-client-ca-file", Path, "CA bundle for client certificates of authenticating proxies.")
    for name, text in (
        ("allowed-names", "Accepted common names of proxy certificates; empty means any."),
        ("username-headers", "Headers with the user name, such as X-Remote-User."),
        ("group-headers", "Headers with groups, such as X-Remote-Group."),
        ("uid-headers", f"Headers with the UID, such as X-Remote-Uid; requires feature gate {UID_GATE}."),
        ("extra-headers-prefix", "Prefixes of headers with extra user information, such as X-Remote-Extra-."),
    ):
        group.add(f"requestheader-{name}", values.strings, text, action=Extend)


def check(options: AuthenticationOptions) -> Iterator[str]:
    version = options.authentication_token_webhook_version
    if version not in WEBHOOK_VERSIONS:
        rule = f"must be one of {', '.join(WEBHOOK_VERSIONS)}"
        yield f'authentication-token-webhook-version "{version}" is not supported: {rule}'
    for name in ("username", "group", "uid"):
        for header in getattr(options, f"requestheader_{name}_headers"):
            if not header.strip():
                yield f"empty value in requestheader-{name}-headers"
