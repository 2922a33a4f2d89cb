"""Command-line options for TLS on the secure port."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from apiserver_stub.options import values
from apiserver_stub.options.declare import Extend, Group
from apiserver_stub.transport.sni import NamedPair
from nodeagent.base.tls import TlsError, insecure, openssl_ciphers, parse_min_version

TITLE = "TLS"
_SUITES_OF_HTTP2 = ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256")


@dataclass(frozen=True, init=False, repr=False, eq=False)  # only a base of Options
class TlsOptions:
    """Values of the command-line options for TLS on the secure port."""

    tls_cert_file: Path | None = None
    tls_private_key_file: Path | None = None
    cert_dir: Path | None = None
    """``None``: see :attr:`~apiserver_stub.options.command_line.Options.certificates`."""
    tls_sni_cert_key: tuple[NamedPair, ...] = ()
    tls_min_version: str = ""
    tls_cipher_suites: tuple[str, ...] = ()


def declare(group: Group) -> None:
    group.add("tls-cert-file", Path, "Serving certificate, followed by its chain. Default: generated in --cert-dir.")
    group.add("tls-private-key-file", Path, "Private key of --tls-cert-file.")
    group.add(
        "cert-dir",
        Path,
        "Directory of the generated certificate and key. Default /var/run/<platform dir>; with --data-dir, and for "
        "users other than root, certs in the data directory.",
    )
    group.add(
        "tls-sni-cert-key",
        _named_pair,
        "CERTIFICATE,KEY[:NAME,NAME...]: serving certificate for these server names; repeatable.",
        action=Extend,
    )
    group.add("tls-min-version", str, "VersionTLS10, VersionTLS11, VersionTLS12 (default) or VersionTLS13.")
    group.add("tls-cipher-suites", values.strings, "Cipher suites for TLS 1.2 and older, comma separated.")


def check(options: TlsOptions) -> Iterator[str]:
    if (options.tls_cert_file is None) != (options.tls_private_key_file is None):
        yield "missing filename for serving cert: --tls-cert-file and --tls-private-key-file must be specified together"
    try:
        parse_min_version(options.tls_min_version)
        openssl_ciphers(options.tls_cipher_suites)
    except TlsError as error:
        yield str(error)
    http2 = getattr(options, "http2_streams", 0) > 0
    chosen = options.tls_cipher_suites if options.tls_min_version != "VersionTLS13" else ()
    if http2 and chosen and not any(name in _SUITES_OF_HTTP2 for name in chosen):
        yield f"HTTP/2 requires one of {' and '.join(_SUITES_OF_HTTP2)} among --tls-cipher-suites"


def _named_pair(text: str) -> tuple[NamedPair, ...]:
    files, _, names = text.partition(":")
    parts = [part.strip() for part in files.split(",")]
    if len(parts) != 2 or not all(parts):
        raise argparse.ArgumentTypeError("expected comma separated certificate and key file paths")
    return (NamedPair(Path(parts[0]), Path(parts[1]), values.strings(names)),)


def warnings(options: TlsOptions) -> Iterator[str]:
    for name in insecure(options.tls_cipher_suites):
        yield f"Use of insecure cipher '{name}' detected."
