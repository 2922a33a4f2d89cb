"""Tests for the options of authentication."""

from __future__ import annotations

import pytest

from apiserver_stub.options import OptionsError, parse, warnings

GATE = "--feature-gates=StructuredAuthenticationConfiguration=true"
SIGNER = (
    "--service-account-signing-endpoint=/run/sign.sock",
    "--feature-gates=ExternalServiceAccountTokenSigner=true",
)
OIDC = ("--oidc-issuer-url=https://x", "--oidc-client-id=c")


def problems(*arguments: str) -> str:
    try:
        parse(arguments)
    except OptionsError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--oidc-issuer-url=https://x",), "oidc-issuer-url and oidc-client-id must be specified together"),
        (("--oidc-groups-claim=g",), "oidc-issuer-url and oidc-client-id must be specified together"),
        (("--oidc-issuer-url=http://x", "--oidc-client-id=c"), "URL scheme must be https"),
        ((*OIDC, "--oidc-signing-algs=HS256"), 'oidc: unsupported signing alg: "HS256"'),
        ((*OIDC, "--oidc-required-claim==x"), "malformed pair, expect string=string"),
        ((*OIDC, "--oidc-required-claim=hd"), "malformed pair, expect string=string"),
        (("--authentication-config=f", GATE, *OIDC), "authentication-config file and oidc-* flags are mutually"),
        (("--authentication-token-webhook-version=v2",), '"v2" is not supported'),
        (("--authentication-token-webhook-cache-ttl=x",), 'time: invalid duration "x"'),
        (("--service-account-issuer=",), "service-account-issuer should not be an empty string"),
        (
            ("--service-account-issuer=https://a", "--service-account-issuer=https://a"),
            'service-account-issuer "https://a" is already specified',
        ),
        (("--service-account-issuer=https://a:b",), "contained a ':' but was not a valid URL"),
        (("--service-account-jwks-uri=http://a",), "requires https scheme, parsed as: http://a"),
        (("--service-account-jwks-uri=:bad",), 'must be a valid URL: parse ":bad"'),
        (("--service-account-signing-key-file=f",), "service-account-key-file is a required flag"),
        ((*SIGNER, "--service-account-key-file=f"), "can't set `--service-account-signing-key-file` and/or"),
        ((*SIGNER, "--service-account-signing-key-file=f"), "(They are mutually exclusive)"),
        (
            (f"{SIGNER[0]} copy", SIGNER[1]),
            'invalid value "/run/sign.sock copy" passed for `--service-account-signing-endpoint`, should be a valid',
        ),
        (("--service-account-signing-endpoint=@a@", SIGNER[1]), "must be prefixed with @ to name UDS in abstract"),
        (("--service-account-max-token-expiration=59m",), "must be between 1 hour and 2^32 seconds"),
    ],
)
def test_invalid_options_are_reported(arguments: tuple[str, ...], problem: str) -> None:
    assert problem in problems(*arguments)


@pytest.mark.row("gate.StructuredAuthenticationConfiguration")
def test_authentication_configuration_requires_its_gate() -> None:
    text = "set --feature-gates=StructuredAuthenticationConfiguration=true to use authentication-config file"

    assert problems("--authentication-config=f") == text
    assert not problems("--authentication-config=f", GATE)


@pytest.mark.parametrize(
    ("release", "gate", "allowed"),
    [("1.32", "", False), ("1.32", "=true", True), ("1.34", "", True), ("1.34", "=false", False), ("1.36", "", True)],
)
def test_external_signer_requires_its_gate(release: str, gate: str, allowed: bool) -> None:
    gates = [f"--feature-gates=ExternalServiceAccountTokenSigner{gate}"] if gate else []

    found = problems("--service-account-signing-endpoint=@sign.sock", f"--compatibility-version={release}", *gates)

    text = (
        "setting `--service-account-signing-endpoint` requires enabling ExternalServiceAccountTokenSigner feature gate"
    )
    assert found == ("" if allowed else text)


def test_repeated_list_options_are_merged() -> None:
    options = parse(
        [
            "--service-account-issuer=https://a",
            "--service-account-issuer=b",
            "--api-audiences=x,y",
            "--api-audiences=z",
            "--oidc-issuer-url=https://x",
            "--oidc-client-id=c",
            "--oidc-required-claim=a=1",
            "--oidc-required-claim=b=2,3",
        ]
    )

    assert options.service_account_issuer == ("https://a", "b")
    assert options.api_audiences == ("x", "y", "z")
    assert options.oidc_required_claim == {"a": "1", "b": "2,3"}


def test_token_extension_beyond_the_maximum_is_a_warning() -> None:
    requested = ["--service-account-max-token-expiration=1h", "--authorization-mode=RBAC"]

    assert len([text for text in warnings(parse(requested)) if "extend-token-expiration" in text]) == 2
    assert not warnings(parse([*requested, "--service-account-extend-token-expiration=false"]))
