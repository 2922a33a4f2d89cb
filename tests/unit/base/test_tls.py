"""Tests for TLS helpers: issued certificates, private files, names of versions and cipher suites."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import Mock, call

import pytest

from nodeagent.base import tls
from nodeagent.base.atomic_file import write_private


def test_server_certificate_covers_hosts_and_addresses(tmp_path: Path) -> None:
    ca = tls.generate_ca("test-ca")

    pair = tls.issue(ca, "server", names=["localhost", "127.0.0.1"], server=True)

    assert tls.covers(pair.certificate, ["localhost", "127.0.0.1"])
    assert not tls.covers(pair.certificate, ["example.com"])
    assert not tls.covers(pair.certificate, [], at=datetime.now(UTC) + timedelta(days=400))
    assert not tls.covers(b"nonsense", [])


def test_handshake_succeeds_with_certificates_of_the_same_ca(tmp_path: Path) -> None:
    ca = tls.generate_ca("test-ca")
    server = tls.issue(ca, "server", names=["localhost"], server=True)
    client = tls.issue(ca, "system:node:n1", organizations=["system:nodes"], client=True)
    files = {}
    for name, data in (
        ("ca.crt", ca.certificate),
        ("s.crt", server.certificate),
        ("s.key", server.key),
        ("c.crt", client.certificate),
        ("c.key", client.key),
    ):
        files[name] = tmp_path / name
        write_private(files[name], data)
    server_context = tls.server_context(files["s.crt"], files["s.key"], client_ca_file=files["ca.crt"])
    client_context = ssl.create_default_context(cafile=str(files["ca.crt"]))
    client_context.load_cert_chain(files["c.crt"], files["c.key"])

    peer = _handshake(server_context, client_context)

    assert (("organizationName", "system:nodes"),) in peer["subject"]
    assert (("commonName", "system:node:n1"),) in peer["subject"]


def test_key_is_masked() -> None:
    assert "PRIVATE" not in repr(tls.KeyPair(b"c", b"PRIVATE"))


def test_versions_by_name() -> None:
    assert tls.parse_min_version("") is ssl.TLSVersion.TLSv1_2
    assert tls.parse_min_version("VersionTLS13") is ssl.TLSVersion.TLSv1_3
    with pytest.raises(tls.TlsError, match='unknown tls version "VersionTLS14"'):
        tls.parse_min_version("VersionTLS14")


def test_ciphers_by_name() -> None:
    names = ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256", "TLS_RSA_WITH_RC4_128_SHA"]

    assert tls.openssl_ciphers(names) == "ECDHE-RSA-AES128-GCM-SHA256:RC4-SHA"
    assert tls.insecure(names) == ["TLS_RSA_WITH_RC4_128_SHA"]
    with pytest.raises(tls.TlsError, match="Cipher suite FOO not supported or doesn't exist"):
        tls.openssl_ciphers(["FOO"])


def test_openssl_supports_every_preferred_cipher() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)

    for name in tls.PREFERRED_CIPHERS:
        context.set_ciphers(tls.openssl_ciphers([name]))


def test_error_names_unusable_files(tmp_path: Path) -> None:
    with pytest.raises(tls.TlsError, match="nope"):
        tls.server_context(tmp_path / "nope.crt", tmp_path / "nope.key")


@pytest.fixture
def server_pair(tmp_path: Path) -> tuple[Path, Path]:
    pair = tls.issue(tls.generate_ca("test-ca"), "server", names=["localhost"], server=True)
    files = tmp_path / "s.crt", tmp_path / "s.key"
    for path, data in zip(files, (pair.certificate, pair.key), strict=True):
        write_private(path, data)
    return files


def _client(**settings: ssl.TLSVersion) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    for name, version in settings.items():
        setattr(context, name, version)
    return context


@pytest.mark.row("config.tlsMinVersion")
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
@pytest.mark.parametrize("suites", [(), ("TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",)])
@pytest.mark.parametrize(
    ("minimum", "version", "negotiated"),
    [
        ("VersionTLS10", ssl.TLSVersion.TLSv1, "TLSv1"),
        ("VersionTLS10", ssl.TLSVersion.TLSv1_1, "TLSv1.1"),
        ("VersionTLS11", ssl.TLSVersion.TLSv1_1, "TLSv1.1"),
    ],
)
def test_old_version_is_negotiated_where_it_is_permitted(server_pair, suites, minimum, version, negotiated):
    server = tls.server_context(*server_pair, min_version=minimum, cipher_suites=suites)

    client = _client(minimum_version=version, maximum_version=version)

    assert _connect(server, client).version() == negotiated


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
@pytest.mark.parametrize(("minimum", "version"), [("VersionTLS11", ssl.TLSVersion.TLSv1), ("", ssl.TLSVersion.TLSv1_1)])
def test_version_below_the_minimum_is_rejected(server_pair, minimum, version):
    server = tls.server_context(*server_pair, min_version=minimum)

    with pytest.raises(ssl.SSLError):
        _connect(server, _client(minimum_version=version, maximum_version=version))


@pytest.mark.parametrize(("curve", "matches"), [("secp384r1", True), ("prime256v1", False)])
def test_key_exchange_is_limited_to_the_configured_curve(server_pair, curve, matches):
    server, client = tls.server_context(*server_pair, curves=[24, 24]), _client()
    client.set_ecdh_curve(curve)

    if matches:
        assert _connect(server, client).version() == "TLSv1.3"
    else:
        with pytest.raises(ssl.SSLError):
            _connect(server, client)


def test_several_curves_are_set_where_supported(monkeypatch):
    context = Mock()
    for supported, curves in ((True, [29, 23]), (False, [29])):
        monkeypatch.setattr(tls, "SEVERAL_CURVES", supported)
        tls.limit_curves(context, curves)

    assert context.method_calls == [call.set_groups("X25519:prime256v1"), call.set_ecdh_curve("X25519")]


def _handshake(server: ssl.SSLContext, client: ssl.SSLContext) -> dict[str, object]:
    """Perform a handshake in memory and return the client certificate that the server verified."""
    peer = _connect(server, client).getpeercert()
    assert peer is not None
    return peer


def _connect(server: ssl.SSLContext, client: ssl.SSLContext) -> ssl.SSLObject:
    """Perform a handshake in memory and return the server side."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = server.wrap_bio(to_server, to_client, server_side=True)
    other = client.wrap_bio(to_client, to_server, server_hostname="localhost")
    for _ in range(10):
        for side in (other, one):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return one


def test_certificate_is_valid_between_its_times_for_its_names() -> None:
    ca, key = tls.generate_ca("ca"), public_key(tls.generate_ca("key"))
    first = datetime.now(UTC).replace(microsecond=0) - timedelta(days=1)
    last = first + timedelta(days=2)
    fields = {"begin": first, "end": last, "server": True}
    named = tls.certify(ca, key, "web.example.com", names=["a.example.com", "10.0.0.1"], **fields)
    plain = tls.certify(ca, key, "Some server", **fields)

    for time, valid in [
        (first, True),
        (last, True),
        (first - timedelta(seconds=1), False),
        (last + timedelta(seconds=1), False),
    ]:
        assert tls.covers(named, ["a.example.com"], at=time) is valid, time
    assert tls.covers(named, ["10.0.0.1", "a.example.com"])
    assert not tls.covers(named, ["a.example.com", "b.example.com"])
    assert tls.covers(plain, []) and not tls.covers(plain, ["a.example.com"])
    assert not tls.covers(b"none", [])
    assert tls.names_of(named) == ["web.example.com", "a.example.com", "10.0.0.1"]
    assert tls.names_of(plain) == []
    assert tls.names_of(tls.certify(ca, key, "*.Example.com", **fields)) == ["*.Example.com"]
    assert tls.valid_until(named + ca.certificate) == last
    for text in (b"", b"none"):
        with pytest.raises(ValueError, match=r"\w"):
            tls.valid_until(text)


def public_key(pair: tls.KeyPair) -> bytes:
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization

    key = x509.load_pem_x509_certificate(pair.certificate).public_key()
    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


@pytest.mark.parametrize(("minimum", "legacy"), [("VersionTLS11", True), ("VersionTLS12", False), ("", False)])
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
def test_legacy_security_level_is_limited_to_old_versions(server_pair, minimum, legacy):
    default = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).security_level

    assert tls.server_context(*server_pair, min_version=minimum).security_level == (0 if legacy else default)
