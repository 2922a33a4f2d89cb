"""Serving certificate that the server generates if none is configured, and its CA."""

from __future__ import annotations

from pathlib import Path

from apiserver_stub.options import Options
from apiserver_stub.options.serving import EVERYWHERE
from apiserver_stub.server.advertised_address import advertised_address
from nodeagent.base.atomic_file import write_private
from nodeagent.base.tls import KeyPair, TlsError, covers, generate_ca, issue, names_of

_NAME = "nodeagent-apiserver"


def certificate_files(options: Options) -> tuple[Path, Path]:
    """Return the files of the certificate and its key."""
    directory = options.certificates
    return (
        options.tls_cert_file or directory / "apiserver.crt",
        options.tls_private_key_file or directory / "apiserver.key",
    )


def generate_certificate(options: Options) -> Path:
    """Generate the certificate and key unless valid ones exist, and return the CA certificate that verifies them.

    A certificate that this server did not generate is used unchanged; a generated one is replaced if its issuer or its
    names no longer match.

    :raises TlsError: the files cannot be written.
    """
    certificate, key = certificate_files(options)
    if certificate == options.tls_cert_file:
        return certificate
    existing = _read_pair(certificate, key)
    if existing and not _is_generated(existing):
        return certificate
    authority, host = own_authority(options.authorities), advertised_address(options)
    names = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "127.0.0.1", "::1"]
    names += {host, options.bind_address, options.external_hostname} - {*names, *EVERYWHERE}
    if authority.certificate not in existing or not covers(existing, names):
        pair = issue(authority, _NAME, names=names, server=True)
        try:
            write_private(key, pair.key)
            write_private(certificate, pair.certificate + authority.certificate, mode=0o644)
        except OSError as error:
            raise TlsError(
                f"cannot write the serving certificate to {certificate.parent}: {error.strerror}: "
                "name a directory that this server may write to with --cert-dir"
            ) from error
    return options.authorities / "ca.crt"


def _read_pair(certificate: Path, key: Path) -> bytes:
    """Return the content of the certificate file; empty unless both files can be read."""
    try:
        key.read_bytes()
        return certificate.read_bytes()
    except OSError:
        return b""


def _is_generated(certificate: bytes) -> bool:
    try:
        return _NAME in names_of(certificate)
    except ValueError:
        return True


def own_authority(directory: Path) -> KeyPair:
    """Return the CA in *directory*; it is generated at the first start."""
    certificate, key = directory / "ca.crt", directory / "ca.key"
    if certificate.exists() and key.exists():
        return KeyPair(certificate.read_bytes(), key.read_bytes())
    authority = generate_ca(f"{_NAME}-ca")
    write_private(key, authority.key)
    write_private(certificate, authority.certificate, mode=0o644)
    return authority
