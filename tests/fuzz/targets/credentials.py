"""Tokens, keys, certificates and certificate requests, and the output of credential providers."""

from __future__ import annotations

import base64
import json

from apiserver_stub.authn import jwt as tokens
from apiserver_stub.authn import keys
from apiserver_stub.authn.authenticators import Rejected
from apiserver_stub.authn.certificates import CaBundle, PeerCertificates
from apiserver_stub.validation import pem
from apiserver_stub.validation.certificate_requests import validate_request
from nodeagent.base import tls
from nodeagent.base.aio.command import CommandResult
from nodeagent.base.exec_plugin import ExecPlugin, ExecPluginError
from nodeagent.base.identity import Identity
from nodeagent_plugins.certificates import helper_process
from nodeagent_plugins.credential_exec.protocol import ProviderFailure, read_response
from nodeagent_plugins.volumes.pem import decode_blocks, encode_certificates
from tests.fuzz.files import written
from tests.fuzz.target import CORPUS, target

IDENTITY = Identity()
PEM = (
    b"-----BEGIN CERTIFICATE-----\n",
    b"-----END CERTIFICATE-----\n",
    b"-----BEGIN CERTIFICATE REQUEST-----\n",
    b"-----BEGIN PRIVATE KEY-----\n",
    b"-----END PRIVATE KEY-----\n",
    b"Proc-Type: 4,ENCRYPTED\n",
    b"-----BEGIN ",
)
JWT = (
    b"eyJhbGciOiJSUzI1NiJ9",
    b"eyJhbGciOiJub25lIn0",
    b".",
    b"e30",
    b"=",
    b'"alg":"ES256"',
    b'"kid":',
    b'"crit":["b64"]',
    b'"b64":false',
    b"null",
)


def _encoded(part: bytes) -> str:
    return base64.urlsafe_b64encode(part).rstrip(b"=").decode()


@target(tokens.TokenError, tokens=JWT)
def jwt(data: bytes) -> None:
    """No text is a verified token without a signature; the parts of a token are those of its text."""
    text = data.decode("utf-8", "replace")
    if data.startswith(b"{"):  # Header, claims and signature that are not encoded.
        text = ".".join(_encoded(part) for part in data.split(b"\x00", 2))
    token = tokens.parse(text)
    assert isinstance(token.key_id, str)
    assert token.signed.decode() == text.rpartition(".")[0]
    token.verify(KEYS)
    raise AssertionError("verified")


KEYS = [
    key
    for key in (
        keys.from_jwk(json.loads(text))
        for text in (
            '{"kty":"EC","crv":"P-256","x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4","y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"}',
            '{"kty":"RSA","n":"0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw","e":"AQAB"}',
        )
    )
    if key is not None
]
assert len(KEYS) == 2


@target(
    tokens=(
        b'"kty":"RSA"',
        b'"kty":"EC"',
        b'"crv":"P-256"',
        b'"n":"',
        b'"e":"AQAB"',
        b'"x":"',
        b'"y":"',
        b'"use":"sig"',
        b'"kid":',
        b'"kty":[]',
    )
)
def json_web_key(data: bytes) -> None:
    """An entry of a key set that cannot verify tokens is ignored."""
    try:
        entry = json.loads(data)
    except (ValueError, RecursionError):
        return
    key = keys.from_jwk(entry)
    if key is not None:
        assert key.jwk()["kid"] == key.key_id


@target(keys.KeyFileError, tokens=PEM)
def key_file(data: bytes) -> None:
    """Keys in a file can be published."""
    path = written("keys", data)
    for key in keys.load_public_keys(path):
        key.jwk()


@target(
    Rejected,
    tls.TlsError,
    tokens=(b"\x30\x82", b"\x06\x03\x55\x04\x03", b"\x0c", b"\x17\x0d", b"\x30\x00", b"\x02\x01"),
)
def client_certificate(data: bytes) -> None:
    """No certificate is accepted without a CA that issued it."""
    bundle = _bundle()
    bundle.subject_of(PeerCertificates((data,), {}))
    raise AssertionError("verified")


def _bundle() -> CaBundle:
    if not _BUNDLES:
        _BUNDLES.append(CaBundle(written("ca.pem", (CORPUS.parent / "ca.pem").read_bytes()), "fuzz"))
    return _BUNDLES[0]


_BUNDLES: list[CaBundle] = []


@target(tls.TlsError, ValueError, tokens=PEM)
def pem_certificates(data: bytes) -> None:
    """Certificates are read, or rejected with one of the documented errors."""
    helper_process.describe({"pem": data.decode("utf-8", "replace")})
    tls.names_of(data)
    tls.valid_until(data)


@target(tokens=PEM)
def certificate_request(data: bytes) -> None:
    """Requests are validated; each problem is an error of a field."""
    for block in pem.blocks(data):
        assert block.type is not None
    for field in ("request", "certificate"):
        obj = {"spec": {"request": "", "signerName": "a/b", "usages": ["any"]}, "status": {}}
        obj["spec" if field == "request" else "status"][field] = base64.b64encode(data).decode()  # type: ignore[index]
        for cause in validate_request(obj, IDENTITY):
            assert cause.field


@target(UnicodeDecodeError, tokens=PEM)
def trust_bundle(data: bytes) -> None:
    """Certificates are written as they were read."""
    blocks = list(decode_blocks(data.decode()))
    assert list(decode_blocks(encode_certificates(blocks).decode())) == blocks


@target(
    ProviderFailure,
    tokens=(
        b'"kind":"CredentialProviderResponse"',
        b'"apiVersion":"credentialprovider.kubelet.k8s.io/v1"',
        b'"cacheKeyType":"Image"',
        b'"auth":{"',
        b'"username":"',
        b'"cacheDuration":"1h"',
        b"null",
        b"[" * 1100,
    ),
)
def provider_output(data: bytes) -> None:
    """An error does not quote the output."""
    try:
        read_response(CommandResult(0, data, b""), "provider", "credentialprovider.kubelet.k8s.io/v1", 4096)
    except ProviderFailure as error:
        assert "password-of-user" not in str(error)
        raise


@target(
    ExecPluginError,
    tokens=(
        b'"kind":"ExecCredential"',
        b'"apiVersion":"client.authentication.k8s.io/v1"',
        b'"status":{',
        b'"token":"',
        b'"expirationTimestamp":"2024-01-01T00:00:00Z"',
        b'"clientCertificateData":"',
    ),
)
def exec_credential(data: bytes) -> None:
    """An error does not quote the output."""
    plugin = ExecPlugin(api_version="client.authentication.k8s.io/v1", command="plugin")
    credential = plugin._parse(data)
    assert credential.token or credential.certificate
