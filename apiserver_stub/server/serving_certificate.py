"""The certificate by which the server is known: given or generated, and exchanged when its files change."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Sequence
from pathlib import Path

from apiserver_stub.authn.certificates import CaBundle
from apiserver_stub.options import Options
from apiserver_stub.options.serving import EVERYWHERE
from apiserver_stub.transport.handshake import request_certificates
from apiserver_stub.transport.http2.negotiation import offer_http2
from apiserver_stub.transport.reloading_files import ReloadingFiles
from apiserver_stub.transport.sni import NamedCertificates
from nodeagent.base.tls import (
    INSECURE_CIPHERS,
    PREFERRED_CIPHERS,
    KeyPair,
    TlsError,
    covers,
    generate_ca,
    issue,
    names_of,
    server_context,
    write_private,
)

_log = logging.getLogger(__name__)

_NAME = "nodeagent-apiserver"
_WEAK = ":@SECLEVEL=0"
"""Lets the library offer what was asked for by name although it finds it too weak."""


class Certificates(ReloadingFiles):
    """The files of the serving certificate and the TLS context made from them.

    :param host: the address that clients are told, which a generated certificate names.
    :raises TlsError: the files are no good.
    """

    def __init__(self, options: Options, host: str) -> None:
        self._options = options
        bundles = {"client-ca-bundle": options.client_ca_file, "request-header": options.requestheader_client_ca_file}
        self._authorities = {path: label for label, path in bundles.items() if path is not None}
        if options.tls_cert_file is not None and options.tls_private_key_file is not None:
            self._certificate, self._key = options.tls_cert_file, options.tls_private_key_file
            self.authority = self._certificate
        else:
            self._certificate, self._key = (options.certificates / f"apiserver.{kind}" for kind in ("crt", "key"))
            self.authority = _generate(options, host, self._certificate, self._key)
        super().__init__("serving certificate", (self._certificate, self._key, *self._authorities))
        self.context = self._build()

    def own_authority(self) -> KeyPair | None:
        """Return the authority that this server made, ``None`` when its certificate was given. Reads the disk."""
        directory = self._options.authorities
        return _own_authority(directory) if self.authority == directory / "ca.crt" else None

    def believes_own_clients(self) -> bool:
        """Return whether clients are believed that the own authority vouches for. Reads the disk."""
        bundle = self._options.client_ca_file
        return bundle is not None and self.authority.read_bytes().strip() in bundle.read_bytes()

    def _apply(self) -> None:
        self._build()  # first aside: loading half a pair would spoil the context in use
        self.context.load_cert_chain(self._certificate, self._key)
        for path in self._authorities:
            self.context.load_verify_locations(path)

    def named(self) -> NamedCertificates:
        """Return the pairs that are for names of their own; all else is with them as with this one. Reads the disk.

        :raises TlsError: a pair is no good.
        """
        options = self._options
        address = "" if options.bind_address in EVERYWHERE else options.bind_address
        return NamedCertificates(options.tls_sni_cert_key, self._context_for, address=address, follow=self._authorities)

    def _build(self) -> ssl.SSLContext:
        return self._context_for(self._certificate, self._key)

    def _context_for(self, certificate: Path, key: Path) -> ssl.SSLContext:
        options = self._options
        context = server_context(certificate, key, min_version=options.tls_min_version)
        for path, label in self._authorities.items():
            CaBundle(path, label)  # for what it says about a bundle that is no good
            context.load_verify_locations(path)
        if self._authorities:
            request_certificates(context)
        choose_ciphers(context, options.tls_cipher_suites)
        if options.http2_max_streams_per_connection > 0:
            offer_http2(context)
        return context


def choose_ciphers(context: ssl.SSLContext, names: Sequence[str]) -> list[str]:
    """Let *context* offer the suites *names* for TLS 1.2 and older, and return those that this machine's library lacks.

    Suites of TLS 1.3 are always on. When nothing is left of those asked for, older versions find no common suite.
    """
    known = {**PREFERRED_CIPHERS, **INSECURE_CIPHERS}
    asked = [name for name in names if name in known]
    if not asked:
        return []
    lacking = [name for name in asked if not _offered(known[name])]
    chosen = [known[name] for name in asked if name not in lacking]
    weak = _WEAK if any(name in INSECURE_CIPHERS for name in asked) else ""
    if chosen:
        context.set_ciphers(":".join(dict.fromkeys(chosen)) + weak)
    else:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
    for name in lacking:
        _log.warning("Cipher suite is not offered by the TLS library here", extra={"suite": name})
    return lacking


def _offered(cipher: str) -> bool:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).set_ciphers(cipher + _WEAK)
    except ssl.SSLError:
        return False
    return True


def _generate(options: Options, host: str, certificate: Path, key: Path) -> Path:
    """See to it that the pair is there, and return the file of the authority that vouches for it.

    A pair that others put there is used as it is; one that was made here is made anew when it no longer fits.

    :raises TlsError: it cannot be written.
    """
    found = _read_pair(certificate, key)
    if found and not _made_here(found):
        _log.info("Serves with a certificate that others put there", extra={"certificate": str(certificate)})
        return certificate
    authority = _own_authority(options.authorities)
    names = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "127.0.0.1", "::1"]
    names += {host, options.bind_address, options.external_hostname} - {*names, *EVERYWHERE}
    if authority.certificate not in found or not covers(found, names):
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
    """Return the certificates of the pair, nothing unless both files can be read."""
    try:
        key.read_bytes()
        return certificate.read_bytes()
    except OSError:
        return b""


def _made_here(certificate: bytes) -> bool:
    try:
        return _NAME in names_of(certificate)
    except ValueError:
        return True


def _own_authority(directory: Path) -> KeyPair:
    """Return the authority in *directory*, made at the first start."""
    certificate, key = directory / "ca.crt", directory / "ca.key"
    if certificate.exists() and key.exists():
        return KeyPair(certificate.read_bytes(), key.read_bytes())
    authority = generate_ca(f"{_NAME}-ca")
    write_private(key, authority.key)
    write_private(certificate, authority.certificate, mode=0o644)
    return authority
