"""Certificates and ciphers of the secure port."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from apiserver_stub.options import values
from apiserver_stub.options.declare import Group
from nodeagent.base.tls import TlsError, insecure, openssl_ciphers, parse_min_version

TITLE = "TLS"


@dataclass(frozen=True)
class TlsOptions:
    tls_cert_file: Path | None = None
    tls_private_key_file: Path | None = None
    cert_dir: Path | None = None
    """``None`` means ``certs`` in the data directory."""
    tls_min_version: str = ""
    tls_cipher_suites: tuple[str, ...] = ()


def declare(group: Group) -> None:
    group.add("tls-cert-file", Path, "Certificate, followed by its chain. Default: generated in --cert-dir.")
    group.add("tls-private-key-file", Path, "Key of --tls-cert-file.")
    group.add("cert-dir", Path, "Directory of generated certificates. Default: certs in --data-dir.")
    group.add("tls-min-version", str, "VersionTLS10, VersionTLS11, VersionTLS12 (default) or VersionTLS13.")
    group.add("tls-cipher-suites", values.strings, "Cipher suites for TLS 1.2 and older, comma separated.")


def check(options: TlsOptions) -> Iterator[str]:
    if (options.tls_cert_file is None) != (options.tls_private_key_file is None):
        yield "missing filename for serving cert: --tls-cert-file and --tls-private-key-file go together"
    try:
        parse_min_version(options.tls_min_version)
        openssl_ciphers(options.tls_cipher_suites)
    except TlsError as error:
        yield str(error)


def warnings(options: TlsOptions) -> Iterator[str]:
    for name in insecure(options.tls_cipher_suites):
        yield f"Use of insecure cipher '{name}' detected."
