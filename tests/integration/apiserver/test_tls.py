"""Tests for TLS options: negotiated cipher suites, versions, and reloaded certificates."""

from __future__ import annotations

import asyncio
import datetime
import re
import socket
import ssl
import subprocess
import time
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from apiserver_stub.options import OptionsError, parse, warnings

from .conftest import Server
from .in_process import start

TLS13 = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
PREFERRED = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
    "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA": "AES256-SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
}
INSECURE = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256": "ECDHE-ECDSA-AES128-SHA256",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA": "ECDHE-ECDSA-RC4-SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA": "ECDHE-RSA-DES-CBC3-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256": "ECDHE-RSA-AES128-SHA256",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA": "ECDHE-RSA-RC4-SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA": "DES-CBC3-SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256": "AES128-SHA256",
    "TLS_RSA_WITH_RC4_128_SHA": "RC4-SHA",
}
"""Cipher suites and their OpenSSL names; repeated here, so that a missing one is detected."""


def pair(directory: Path, kind: str, name: str = "localhost") -> tuple[Path, Path]:
    """Write a self-signed certificate on an RSA or elliptic curve key and return both files."""
    key = rsa.generate_private_key(65537, 2048) if kind == "RSA" else ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    files = directory / f"{kind}.crt", directory / f"{kind}.key"
    files[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return files


def offered(cipher: str) -> bool:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).set_ciphers(f"{cipher}:@SECLEVEL=0")
    except ssl.SSLError:
        return False
    return True


def negotiate(port: int, cipher: str = "", version: ssl.TLSVersion | None = None) -> tuple[str, str, bytes]:
    """Shake hands and return cipher, version and the server's certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if version is not None:
        context.minimum_version = context.maximum_version = version
    if cipher:
        context.set_ciphers(f"{cipher}:@SECLEVEL=0")
    with socket.create_connection(("127.0.0.1", port), timeout=10) as plain, context.wrap_socket(plain) as wrapped:
        name, _, _ = wrapped.cipher() or ("", "", 0)
        return name, wrapped.version() or "", wrapped.getpeercert(binary_form=True) or b""


def spoken_1_3(port: int, suite: str) -> str:
    """Shake hands with TLS 1.3 and only *suite*, and return the negotiated suite."""
    command = ["openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-tls1_3", "-ciphersuites", suite]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30, check=True)
    found = re.search(r"^New, TLSv1\.3, Cipher is (\S+)$", done.stdout, re.MULTILINE)
    return found[1] if found else ""


def suites(names: dict[str, str]) -> list[object]:
    return [
        pytest.param(name, cipher, id=name, marks=pytest.mark.row(f"tls.suite.{name}"))
        for name, cipher in names.items()
    ]


@pytest.mark.row("opt.tls-cipher-suites")
@pytest.mark.parametrize(("name", "cipher"), suites(PREFERRED | INSECURE))
async def test_configured_suite_is_negotiated(tmp_path: Path, name: str, cipher: str) -> None:
    key_type = "ECDSA" if "ECDSA" in name else "RSA"
    certificate, key = pair(tmp_path, key_type)
    options = [f"--tls-cipher-suites={name}", f"--tls-cert-file={certificate}", f"--tls-private-key-file={key}"]
    options.append("--disable-http2-serving")  # It requires other suites.
    assert any("insecure" in text for text in warnings(parse(options))) is (name in INSECURE)
    running = await start(tmp_path / "data", *options)
    try:
        port = int(running.url.rpartition(":")[2])
        if offered(cipher):
            spoken, protocol, _ = await asyncio.to_thread(negotiate, port, cipher, ssl.TLSVersion.TLSv1_2)
            assert (spoken, protocol) == (cipher, "TLSv1.2")
        usual = [f"ECDHE-{key_type}-{rest}" for rest in ("AES256-GCM-SHA384", "AES128-GCM-SHA256")]
        other = next(suite for suite in usual if suite != cipher)  # a default suite that matches the key
        with pytest.raises(ssl.SSLError):
            await asyncio.to_thread(negotiate, port, other, ssl.TLSVersion.TLSv1_2)
        assert (await asyncio.to_thread(negotiate, port))[1] == "TLSv1.3"
    finally:
        await running.stop()


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.row(f"tls.suite.{name}")) for name in TLS13])
async def test_suites_of_tls_1_3_are_always_enabled(tmp_path: Path, name: str) -> None:
    running = await start(tmp_path / "data", f"--tls-cipher-suites={name}", "--disable-http2-serving")
    try:
        port = int(running.url.rpartition(":")[2])
        assert [await asyncio.to_thread(spoken_1_3, port, suite) for suite in TLS13] == list(TLS13)
    finally:
        await running.stop()


@pytest.mark.row("opt.tls-cipher-suites")
def test_unknown_suite_is_rejected() -> None:
    with pytest.raises(OptionsError, match="Cipher suite FOO not supported or doesn't exist"):
        parse(["--tls-cipher-suites=FOO"])


@pytest.mark.row("opt.tls-min-version")
async def test_minimum_version_is_enforced(tmp_path: Path) -> None:
    running = await start(tmp_path / "data", "--tls-min-version=VersionTLS13")
    try:
        port = int(running.url.rpartition(":")[2])
        assert (await asyncio.to_thread(negotiate, port))[1] == "TLSv1.3"
        with pytest.raises(ssl.SSLError):
            await asyncio.to_thread(negotiate, port, "", ssl.TLSVersion.TLSv1_2)
    finally:
        await running.stop()


def test_changed_certificate_files_are_reloaded(tmp_path: Path) -> None:
    certificate, key = pair(tmp_path, "RSA", "one.example")
    server = Server(tmp_path / "data", f"--tls-cert-file={certificate}", f"--tls-private-key-file={key}")
    try:
        port = int(server.ready["url"].rpartition(":")[2])
        before = negotiate(port)[2]
        good_key = key.read_bytes()
        key.write_text("nonsense")
        time.sleep(2.5)
        assert negotiate(port)[2] == before
        key.write_bytes(good_key)
        pair(tmp_path, "RSA", "two.example")

        end = time.monotonic() + 20
        while negotiate(port)[2] == before:
            assert time.monotonic() < end, "the new certificate is not shown"
            time.sleep(0.1)
        assert b"two.example" in negotiate(port)[2]
    finally:
        server.stop()
