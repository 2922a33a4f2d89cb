"""Tests for the verification of client certificates in the TLS handshake."""

from __future__ import annotations

import ssl
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from apiserver_stub.transport.handshake import verify_client_certificates
from nodeagent.base.atomic_file import write_private
from nodeagent.base.tls import KeyPair, generate_ca, issue, server_context

CA, OTHER, BETWEEN = generate_ca("ca"), generate_ca("other"), generate_ca("between")


def signed(ca: KeyPair, other: KeyPair) -> bytes:
    """Return the certificate of the CA *other*, signed by *ca*."""
    parent, own = (x509.load_pem_x509_certificate(pair.certificate) for pair in (ca, other))
    builder = x509.CertificateBuilder(
        parent.subject, own.subject, own.public_key(), 7, own.not_valid_before_utc, own.not_valid_after_utc
    ).add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    key: Any = serialization.load_pem_private_key(ca.key, None)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def connected(directory: Path, bundle: bytes, pair: KeyPair | None) -> ssl.SSLObject:
    """Return the server's side of a connection after the handshake of a client with *pair*.

    :raises ssl.SSLError: the server rejects the certificate.
    """
    (directory / "bundle").write_bytes(bundle)
    serving = issue(CA, "server", names=["localhost"], server=True)
    write_private(directory / "crt", serving.certificate)
    write_private(directory / "key", serving.key)
    context = server_context(directory / "crt", directory / "key")
    verify_client_certificates(context, [directory / "bundle"])
    client_context = ssl.create_default_context(cadata=CA.certificate.decode())
    if pair is not None:
        write_private(directory / "own", pair.key + pair.certificate)
        client_context.load_cert_chain(directory / "own")
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = context.wrap_bio(to_server, to_client, server_side=True)
    client = client_context.wrap_bio(to_client, to_server, server_hostname="localhost")
    for _ in range(3):
        for side in (client, server):
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
    return server


def test_verified_certificate_is_available_after_the_handshake(tmp_path: Path) -> None:
    server = connected(tmp_path, CA.certificate, issue(CA, "carol", client=True))

    certificate = x509.load_der_x509_certificate(server.getpeercert(binary_form=True) or b"")
    assert certificate.subject.rfc4514_string() == "CN=carol"


def test_client_without_certificate_is_accepted(tmp_path: Path) -> None:
    assert connected(tmp_path, CA.certificate, None).getpeercert() is None


@pytest.mark.parametrize(
    "pair",
    [issue(OTHER, "carol", client=True), issue(CA, "carol", server=True)],
    ids=["foreign", "for servers"],
)
def test_unverified_certificate_fails_the_handshake(tmp_path: Path, pair: KeyPair) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        connected(tmp_path, CA.certificate, pair)


@pytest.mark.parametrize("sent", [True, False])
def test_intermediate_ca_is_in_the_bundle_or_sent(tmp_path: Path, *, sent: bool) -> None:
    intermediate = signed(OTHER, BETWEEN)
    pair = issue(BETWEEN, "carol", client=True)

    if sent:
        server = connected(tmp_path, OTHER.certificate, KeyPair(pair.certificate + intermediate, pair.key))
    else:
        server = connected(tmp_path, intermediate, pair)

    assert server.getpeercert()
