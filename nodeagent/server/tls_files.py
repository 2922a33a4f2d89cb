"""TLS contexts of the secure port, reloaded when their files change.

spec: config.tlsCertFile, config.tlsPrivateKeyFile, config.tlsCipherSuites, config.tlsMinVersion,
type.NodeAgentX509Authentication.clientCAFile
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Sequence
from pathlib import Path
from weakref import WeakSet

from nodeagent.base.aio import Clock
from nodeagent.base.file_signature import FileSignature, file_signatures
from nodeagent.base.tls import TlsError, server_context

_log = logging.getLogger(__name__)

CHECK_SECONDS = 1.0
Signature = tuple[FileSignature | None, ...]


class TlsFiles:
    """Provides the TLS context for each new connection, from the current files.

    The files are checked when a client connects, at most once per second. Invalid files are logged once, and the
    previous context remains active. A new context has no sessions, so a client whose CA was removed cannot resume one.
    """

    def __init__(
        self,
        certificate: Path,
        key: Path,
        clock: Clock,
        *,
        client_ca: Path | None = None,
        min_version: str = "",
        cipher_suites: Sequence[str] = (),
        curves: Sequence[int] = (),
    ) -> None:
        self._certificate, self._key, self._client_ca = certificate, key, client_ca
        self._min_version, self._cipher_suites, self._curves = min_version, tuple(cipher_suites), tuple(curves)
        self._clock = clock
        self._context: ssl.SSLContext | None = None
        self._loaded_signature: Signature = ()
        self._checked_at = 0.0
        self._lock = asyncio.Lock()
        self._with_current_ca: WeakSet[ssl.SSLContext] = WeakSet()
        self._ca: Signature = ()

    async def context(self) -> ssl.SSLContext:
        """Return the context for the next connection.

        :raises TlsError: the files have never been usable.
        """
        async with self._lock:
            if self._context is not None and self._clock.now() < self._checked_at + CHECK_SECONDS:
                return self._context
            self._checked_at = self._clock.now()
            signature = await asyncio.to_thread(self._signature)
            if self._context is None or signature != self._loaded_signature:
                await self._reload(signature)
            assert self._context is not None
            return self._context

    async def is_trusted(self, context: ssl.SSLContext) -> bool:
        """Return whether the client certificates that *context* verified were signed by the current CA bundle.

        A connection may outlive the bundle with which it was verified.
        """
        await self.context()
        return context in self._with_current_ca

    async def _reload(self, signature: Signature) -> None:
        is_reload = self._context is not None
        try:
            self._context = await asyncio.to_thread(self._create)
        except TlsError as error:
            if not is_reload:
                raise
            _log.error("Failed to reload TLS files, keeping the previous ones", extra={"err": str(error)})
        else:
            if is_reload:
                _log.info("Reloaded TLS files", extra={"path": str(self._certificate)})
            if self._client_ca is not None and self._ca != signature[2:]:
                self._with_current_ca.clear()
                self._ca = signature[2:]
            self._with_current_ca.add(self._context)
        self._loaded_signature = signature

    def _create(self) -> ssl.SSLContext:
        context = server_context(
            self._certificate,
            self._key,
            client_ca_file=self._client_ca,
            min_version=self._min_version,
            cipher_suites=self._cipher_suites,
            curves=self._curves,
        )
        # Trust intermediate certificates in the bundle without their root, as the kubelet does.
        context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
        context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | ssl.OP_CIPHER_SERVER_PREFERENCE
        context.set_alpn_protocols(["http/1.1"])
        return context

    def _signature(self) -> Signature:
        return file_signatures(path for path in (self._certificate, self._key, self._client_ca) if path is not None)
