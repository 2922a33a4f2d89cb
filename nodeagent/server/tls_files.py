"""The TLS side of the secured port: contexts made from files, and made anew when a file changes.

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
from nodeagent.base.stamps import Stamp, stamps
from nodeagent.base.tls import TlsError, server_context

_log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
Signature = tuple[Stamp | None, ...]


class TlsFiles:
    """Gives each new connection a context from the files as they are now.

    Nothing watches the files: they are looked at when a client connects, at most once a second. What cannot be used
    is logged once and the context before it stays in force. A fresh context knows no sessions, so a client whose CA
    was taken away cannot come back on an old one.
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
    ) -> None:
        self._certificate, self._key, self._client_ca = certificate, key, client_ca
        self._min_version, self._cipher_suites = min_version, tuple(cipher_suites)
        self._clock = clock
        self._context: ssl.SSLContext | None = None
        self._made_of: Signature = ()
        self._looked_at = 0.0
        self._turn = asyncio.Lock()
        self._of_present_ca: WeakSet[ssl.SSLContext] = WeakSet()
        self._ca: Signature = ()

    async def context(self) -> ssl.SSLContext:
        """Return the context for the next connection.

        :raises TlsError: the files have never been usable.
        """
        async with self._turn:
            if self._context is not None and self._clock.now() < self._looked_at + LOOK_SECONDS:
                return self._context
            self._looked_at = self._clock.now()
            signature = await asyncio.to_thread(self._signature)
            if self._context is None or signature != self._made_of:
                await self._renew(signature)
            assert self._context is not None
            return self._context

    async def believes(self, context: ssl.SSLContext) -> bool:
        """Whether the client certificates that *context* verified were signed by who is in the bundle now.

        A connection may outlive the bundle that it was verified with.
        """
        await self.context()
        return context in self._of_present_ca

    async def _renew(self, signature: Signature) -> None:
        again = self._context is not None
        try:
            self._context = await asyncio.to_thread(self._make)
        except TlsError as error:
            if not again:
                raise
            _log.error("Changed TLS files are of no use, the ones before stay in force", extra={"err": str(error)})
        else:
            if again:
                _log.info("TLS files changed and are in force", extra={"file": str(self._certificate)})
            if self._client_ca is not None and self._ca != signature[2:]:
                self._of_present_ca.clear()
                self._ca = signature[2:]
            self._of_present_ca.add(self._context)
        self._made_of = signature

    def _make(self) -> ssl.SSLContext:
        context = server_context(
            self._certificate,
            self._key,
            client_ca_file=self._client_ca,
            min_version=self._min_version,
            cipher_suites=self._cipher_suites,
        )
        # An intermediate in the bundle is trusted as it stands, as in the field.
        context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
        context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | ssl.OP_CIPHER_SERVER_PREFERENCE
        context.set_alpn_protocols(["http/1.1"])
        return context

    def _signature(self) -> Signature:
        return stamps(path for path in (self._certificate, self._key, self._client_ca) if path is not None)
