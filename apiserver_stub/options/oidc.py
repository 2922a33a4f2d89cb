"""Command-line options for OpenID Connect tokens."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path

from apiserver_stub.options import values
from apiserver_stub.options.declare import Extend, Group, Merge

TITLE = "OpenID Connect"
SIGNING_ALGORITHMS = ("RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512")


@dataclass(frozen=True)
class OidcOptions:
    oidc_issuer_url: str = ""
    oidc_client_id: str = ""
    oidc_ca_file: Path | None = None
    oidc_username_claim: str = "sub"
    oidc_username_prefix: str = ""
    oidc_groups_claim: str = ""
    oidc_groups_prefix: str = ""
    oidc_required_claim: Mapping[str, str] = field(default_factory=dict)
    oidc_signing_algs: tuple[str, ...] = ("RS256",)

    @property
    def oidc_configured(self) -> bool:
        """True if any of these options differs from its default."""
        names = [item.name for item in fields(OidcOptions)]
        return any(getattr(self, name) != getattr(OidcOptions(), name) for name in names)


def declare(group: Group) -> None:
    group.add("oidc-issuer-url", str, "URL of the token issuer; https only.")
    group.add("oidc-client-id", str, "Client ID; required audience of tokens.")
    group.add("oidc-ca-file", Path, "CA bundle for the issuer's serving certificate. Default: the CAs of the system.")
    group.add("oidc-username-claim", str, "Claim with the user name. Default sub.")
    group.add(
        "oidc-username-prefix", str, "Prefix of user names; - disables it. Default: ISSUER# unless the claim is email."
    )
    group.add("oidc-groups-claim", str, "Claim with the groups: a string or a list of strings.")
    group.add("oidc-groups-prefix", str, "Prefix of group names.")
    group.add("oidc-required-claim", _pair, "KEY=VALUE that must be a claim of the token; repeatable.", action=Merge)
    group.add(
        "oidc-signing-algs",
        values.strings,
        f"Accepted signing algorithms: {', '.join(SIGNING_ALGORITHMS)}. Default RS256.",
        action=Extend,
    )


def check(options: OidcOptions) -> Iterator[str]:
    from apiserver_stub.authn.jwt_config import issuer_problems

    if options.oidc_configured and getattr(options, "authentication_config", None) is None:
        if not (options.oidc_issuer_url and options.oidc_client_id):
            yield "oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set"
        else:
            yield from issuer_problems(options.oidc_issuer_url, "jwt[0].issuer.url")
    for name in options.oidc_signing_algs:
        if name not in SIGNING_ALGORITHMS:
            yield f'oidc: unsupported signing alg: "{name}"'


def _pair(text: str) -> dict[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise argparse.ArgumentTypeError("malformed pair, expect string=string")
    return {key.strip(): value.strip()}
