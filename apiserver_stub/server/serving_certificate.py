"""Serving certificate, reloaded when its files change."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Sequence
from pathlib import Path

from apiserver_stub.authn.certificates import CaBundle
from apiserver_stub.options import Options
from apiserver_stub.options.serving import EVERYWHERE
from apiserver_stub.server.generated_certificate import certificate_files, own_authority
from apiserver_stub.transport.handshake import verify_client_certificates
from apiserver_stub.transport.http2.negotiation import offer_http2
from apiserver_stub.transport.reloading_files import ReloadingFiles
from apiserver_stub.transport.sni import NamedCertificates
from nodeagent.base.aio import TaskOwner
from nodeagent.base.tls import INSECURE_CIPHERS, PREFERRED_CIPHERS, KeyPair, server_context

_log = logging.getLogger(__name__)

_WEAK = ":@SECLEVEL=0"
"""OpenSSL security level that permits the weak cipher suites that the configuration names."""


class Certificates(ReloadingFiles):
    """The files of the serving certificate and the TLS context built from them.

    :param ca_certificate: the one by which clients verify the serving certificate.
    :raises TlsError: a file is invalid.
    """

    def __init__(self, options: Options, ca_certificate: Path) -> None:
        self._options = options
        bundles = {"client-ca-bundle": options.client_ca_file, "request-header": options.requestheader_client_ca_file}
        self._authorities = {path: label for label, path in bundles.items() if path is not None}
        self._certificate, self._key = certificate_files(options)
        self.authority = ca_certificate
        if ca_certificate == self._certificate != options.tls_cert_file:
            _log.info("Using existing serving certificate", extra={"certificate": str(ca_certificate)})
        super().__init__("serving certificate", (self._certificate, self._key, *self._authorities))
        self._named: NamedCertificates | None = None
        self.context = self._build()
        """Context of new connections, replaced when a file changes."""

    def own_authority(self) -> KeyPair | None:
        """Return the generated CA, or ``None`` if the serving certificate is configured. Reads the disk."""
        directory = self._options.authorities
        return own_authority(directory) if self.authority == directory / "ca.crt" else None

    def trusts_own_clients(self) -> bool:
        """Return whether the client CA bundle contains the generated CA. Reads the disk."""
        bundle = self._options.client_ca_file
        return bundle is not None and self.authority.read_bytes().strip() in bundle.read_bytes()

    def _apply(self) -> None:
        context = self._build()
        if self._named is not None:
            self._named.attach(context)
        self.context = context

    async def start(self, tasks: TaskOwner) -> None:
        """Serve the SNI certificates too, and reload all certificates when their files change.

        :raises TlsError: a certificate or key is invalid.
        """
        tasks.start(self.keep_current(), "certificates")
        if self._options.tls_sni_cert_key:
            named = await asyncio.to_thread(self.add_named)
            tasks.start(named.keep_current(), "named-certificates")

    def add_named(self) -> NamedCertificates:
        """Serve the SNI certificates too, with the same TLS settings, and return them. Reads the disk.

        :raises TlsError: a certificate or key is invalid.
        """
        options = self._options
        address = "" if options.bind_address in EVERYWHERE else options.bind_address
        pairs, bundles = options.tls_sni_cert_key, self._authorities
        self._named = NamedCertificates(pairs, self._context_for, address=address, follow=bundles)
        self._named.attach(self.context)
        return self._named

    def _build(self) -> ssl.SSLContext:
        return self._context_for(self._certificate, self._key)

    def _context_for(self, certificate: Path, key: Path) -> ssl.SSLContext:
        options = self._options
        context = server_context(certificate, key, min_version=options.tls_min_version)
        for path, label in self._authorities.items():
            CaBundle(path, label)  # Raises a more specific error if the bundle is invalid.
        if self._authorities:
            verify_client_certificates(context, self._authorities)
        choose_ciphers(context, options.tls_cipher_suites)
        if options.http2_streams > 0:
            offer_http2(context)
        return context


def choose_ciphers(context: ssl.SSLContext, names: Sequence[str]) -> list[str]:
    """Set the cipher suites *names* for TLS 1.2 and older, and return those that the TLS library does not support.

    Suites of TLS 1.3 are always enabled. If *names* has suites of older versions and the library supports none of them,
    these versions are disabled.
    """
    ciphers = {**PREFERRED_CIPHERS, **INSECURE_CIPHERS}
    requested = [name for name in names if name in ciphers]
    if not requested:
        return []
    unsupported = [name for name in requested if not _offered(ciphers[name])]
    chosen = [ciphers[name] for name in requested if name not in unsupported]
    weak = _WEAK if any(name in INSECURE_CIPHERS for name in requested) else ""
    if chosen:
        context.set_ciphers(":".join(dict.fromkeys(chosen)) + weak)
    else:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
    for name in unsupported:
        _log.warning("Cipher suite not supported by the TLS library", extra={"suite": name})
    return unsupported


def _offered(cipher: str) -> bool:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).set_ciphers(cipher + _WEAK)
    except ssl.SSLError:
        return False
    return True
