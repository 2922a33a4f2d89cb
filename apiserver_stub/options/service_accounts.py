"""Command-line options for service account tokens."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from apiserver_stub.options import values
from apiserver_stub.options.declare import Extend, Group

TITLE = "Service account tokens"
SIGNER_GATE = "ExternalServiceAccountTokenSigner"
_SOCKET = re.compile(r"(/[^/\s\0]+)+|@[\w-]+(\.[\w-]+)*")
_YEAR_SECONDS = 365 * 24 * 3600
_WARN_SECONDS = 3607
_SHORTEST_SECONDS, _LONGEST_SECONDS = 3600, 1 << 32


@dataclass(frozen=True, init=False, repr=False, eq=False)  # only a base of Options
class ServiceAccountOptions:
    """Values of the command-line options for service account tokens."""

    api_audiences: tuple[str, ...] = ()
    """Audiences of this API; empty means the issuers."""
    service_account_issuer: tuple[str, ...] = ("https://kubernetes.default.svc",)
    """Trusted issuers; the first one issues tokens."""
    service_account_jwks_uri: str = ""
    """JWKS URI in the discovery document; empty means this server."""
    service_account_key_file: tuple[Path, ...] = ()
    service_account_signing_key_file: Path | None = None
    """``None`` means a generated key."""
    service_account_signing_endpoint: str = ""
    """Unix socket of the signer that holds the keys instead of the files; empty means the files."""
    service_account_lookup: bool = True
    service_account_max_token_expiration_seconds: float = 0
    service_account_extend_token_expiration: bool = True


def declare(group: Group) -> None:
    group.add("api-audiences", values.strings, "Audiences of this API. Default: the issuers.", action=Extend)
    group.add(
        "service-account-issuer", _one, "Token issuer; repeatable, and the first one issues tokens.", action=Extend
    )
    group.add("service-account-jwks-uri", str, "JWKS URI in the discovery document. Default: this server.")
    group.add(
        "service-account-key-file",
        _one_path,
        "PEM keys that verify tokens; repeatable. Default: --tls-private-key-file and the signing key.",
        action=Extend,
    )
    group.add("service-account-signing-key-file", Path, "PEM key that signs tokens. Default: a generated key.")
    group.add(
        "service-account-signing-endpoint",
        str,
        "Unix socket of an external signer that signs tokens and provides the keys that verify them: a path, or @ and "
        f"the name of an abstract socket; requires feature gate {SIGNER_GATE}.",
    )
    group.add(
        "service-account-lookup", values.boolean, "Require that the Secrets of legacy tokens exist. Default true."
    )
    group.add(
        "service-account-max-token-expiration",
        values.duration,
        "Maximum validity of tokens. Default: unlimited.",
        dest="service_account_max_token_expiration_seconds",
    )
    group.add(
        "service-account-extend-token-expiration",
        values.boolean,
        "Extend the validity of tokens projected into pods to one year. Default true.",
    )


def check(options: ServiceAccountOptions) -> Iterator[str]:
    seen: set[str] = set()
    for issuer in options.service_account_issuer:
        if not issuer:
            yield "service-account-issuer should not be an empty string"
        elif ":" in issuer and (problem := _url_problem(issuer)):
            yield f"service-account-issuer \"{issuer}\" contained a ':' but was not a valid URL: {problem}"
        elif issuer in seen:
            yield f'service-account-issuer "{issuer}" is already specified'
        seen.add(issuer)
    if uri := options.service_account_jwks_uri:
        if problem := _url_problem(uri):
            yield f"service-account-jwks-uri must be a valid URL: {problem}"
        elif urlsplit(uri).scheme != "https":
            yield f"service-account-jwks-uri requires https scheme, parsed as: {uri}"
    if options.service_account_signing_endpoint:
        yield from _check_endpoint(options)
    elif options.service_account_signing_key_file is not None and not options.service_account_key_file:
        yield "service-account-key-file is a required flag"
    seconds = options.service_account_max_token_expiration_seconds
    if seconds and not _SHORTEST_SECONDS <= seconds <= _LONGEST_SECONDS:
        yield "the service-account-max-token-expiration must be between 1 hour and 2^32 seconds"


def _check_endpoint(options: ServiceAccountOptions) -> Iterator[str]:
    endpoint = options.service_account_signing_endpoint
    if options.service_account_signing_key_file is not None or options.service_account_key_file:
        yield (
            "can't set `--service-account-signing-key-file` and/or `--service-account-key-file` with "
            "`--service-account-signing-endpoint` (They are mutually exclusive)"
        )
    if not _SOCKET.fullmatch(endpoint):
        yield (
            f'invalid value "{endpoint}" passed for `--service-account-signing-endpoint`, should be a valid location '
            "on the filesystem or must be prefixed with @ to name UDS in abstract namespace"
        )


def warnings(options: ServiceAccountOptions) -> Iterator[str]:
    seconds = options.service_account_max_token_expiration_seconds
    if seconds and options.service_account_extend_token_expiration and seconds < _YEAR_SECONDS:
        if seconds < _WARN_SECONDS:
            yield (
                "service-account-extend-token-expiration is true, in order to correctly trigger safe transition "
                f"logic, service-account-max-token-expiration must be set longer than {_WARN_SECONDS} seconds"
            )
        yield (
            f"service-account-extend-token-expiration is true, enabling tokens valid up to {_YEAR_SECONDS} seconds, "
            f"which is longer than service-account-max-token-expiration set to {seconds:.0f} seconds"
        )


def _one(text: str) -> tuple[str, ...]:
    return (text,)


def _one_path(text: str) -> tuple[Path, ...]:
    return (Path(text),)


def _url_problem(text: str) -> str:
    if text.startswith(":"):
        return f'parse "{text}": missing protocol scheme'
    try:
        urlsplit(text).port  # noqa: B018 - raises for an invalid number
    except ValueError as error:
        return f'parse "{text}": {error}'
    return ""
