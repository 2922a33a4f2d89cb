"""Tests for certificates by server name; client authentication is identical for all names."""

from __future__ import annotations

import ssl
from contextlib import suppress
from pathlib import Path

import pytest

from apiserver_stub.options import parse
from apiserver_stub.server.key_generation import generate_keys
from apiserver_stub.server.serving_certificate import Certificates
from nodeagent.base.atomic_file import write_private
from nodeagent.base.logging import v_level
from nodeagent.base.tls import KeyPair, generate_ca, issue

CLIENTS, PROXIES, UNKNOWN_NAMES = generate_ca("clients"), generate_ca("proxies"), generate_ca("strangers")
NAMED = generate_ca("named")


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    (tmp_path / "clients.crt").write_bytes(CLIENTS.certificate)
    (tmp_path / "proxies.crt").write_bytes(PROXIES.certificate)
    pair = issue(NAMED, "web", names=["web.test"], server=True)
    write_private(tmp_path / "web.key", pair.key)
    write_private(tmp_path / "web.crt", pair.certificate)
    arguments = [
        f"--data-dir={tmp_path / 'data'}",
        f"--client-ca-file={tmp_path / 'clients.crt'}",
        f"--requestheader-client-ca-file={tmp_path / 'proxies.crt'}",
        f"--tls-sni-cert-key={tmp_path / 'web.crt'},{tmp_path / 'web.key'}",
    ]
    options = parse(arguments)
    return Certificates(options, generate_keys(options))


def shown_to(context: ssl.SSLContext, name: str, own: KeyPair, directory: Path) -> str:
    """Shake hands with the client certificate *own* and return the subject that the server received."""
    client_context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client_context.check_hostname, client_context.verify_mode = False, ssl.CERT_NONE
    write_private(directory / "own", own.key + own.certificate)
    client_context.load_cert_chain(directory / "own")
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = context.wrap_bio(to_server, to_client, server_side=True)
    client = client_context.wrap_bio(to_client, to_server, server_hostname=name)
    for _ in range(3):
        for side in (client, server):
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
    der = server.getpeercert(binary_form=True)
    assert der is not None
    from cryptography import x509

    return x509.load_der_x509_certificate(der).subject.rfc4514_string()


@pytest.mark.row("opt.tls-sni-cert-key")
@pytest.mark.parametrize("name", ["web.test", "localhost"])
@pytest.mark.parametrize("authority", [CLIENTS, PROXIES], ids=["client", "proxy"])
def test_client_certificate_is_received_for_every_name(
    certificates: Certificates, tmp_path: Path, authority: KeyPair, name: str
) -> None:
    certificates.add_named()

    assert shown_to(certificates.context, name, issue(authority, "me", client=True), tmp_path) == "CN=me"


@pytest.mark.row("opt.tls-sni-cert-key")
@pytest.mark.parametrize("name", ["web.test", "localhost"])
def test_unknown_client_certificate_is_rejected_for_every_name(
    certificates: Certificates, tmp_path: Path, name: str
) -> None:
    certificates.add_named()

    with pytest.raises(ssl.SSLCertVerificationError):
        shown_to(certificates.context, name, issue(UNKNOWN_NAMES, "me", client=True), tmp_path)


@pytest.mark.parametrize("name", ["web.test", "localhost"])
def test_reloaded_bundle_applies_to_every_name(
    certificates: Certificates, tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(v_level(2))
    named = certificates.add_named()
    (tmp_path / "clients.crt").write_bytes(UNKNOWN_NAMES.certificate + b"\n")

    assert certificates.reload() and named.reload()

    assert caplog.messages.count("Loaded a new cert/key pair") == 2
    assert shown_to(certificates.context, name, issue(UNKNOWN_NAMES, "me", client=True), tmp_path) == "CN=me"
    with pytest.raises(ssl.SSLCertVerificationError):
        shown_to(certificates.context, name, issue(CLIENTS, "me", client=True), tmp_path)
