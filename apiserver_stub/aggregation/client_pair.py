"""The certificate that this server shows to extension API servers and admission webhooks (spec: opt.proxy-client-*)."""

from __future__ import annotations

import asyncio
import base64
import logging
import ssl
from pathlib import Path

from nodeagent.base.stamps import Stamp, stamps
from nodeagent.base.tls import TlsError

_log = logging.getLogger(__name__)

POLL_SECONDS = 2.0
_MOST_CONTEXTS = 100


class ClientPair:
    """Makes the TLS contexts of connections to services; without files they show no certificate. Reads the disk.

    :raises TlsError: the files are no good.
    """

    def __init__(self, certificate: Path | None, key: Path | None) -> None:
        self._certificate, self._key = certificate, key
        self._stamps = self._read_stamps()
        self._contexts: dict[tuple[str, bool], ssl.SSLContext] = {}
        try:
            self._build("", verify=False)
        except OSError as error:  # covers ssl.SSLError
            named = next((path for path in (certificate, key) if path is not None and not path.is_file()), None)
            problem = f"open {named}: no such file or directory" if named else f"{certificate}, {key}: {error}"
            raise TlsError(problem) from error

    async def context(self, bundle: str, *, verify: bool = True) -> ssl.SSLContext:
        """Return a context that trusts *bundle* (base64 as in objects; empty: the system), or anybody.

        :raises ValueError: the bundle holds no certificates.
        :raises OSError: that, or the files cannot be read any more.
        """
        found = self._contexts.get((bundle, verify))
        if found is None:
            found = await asyncio.to_thread(self._build, bundle, verify=verify)
            if len(self._contexts) >= _MOST_CONTEXTS:  # bundles of objects that are gone
                self._contexts.clear()
            self._contexts[bundle, verify] = found
        return found

    async def keep_current(self) -> None:
        """Take up changed files until cancelled; a pair that does not fit is told and the one in use stays."""
        while self._certificate is not None:
            await asyncio.sleep(POLL_SECONDS)
            await asyncio.to_thread(self.reload)

    def reload(self) -> bool:
        """Take up the files if they changed; returns whether new connections show another certificate."""
        found = self._read_stamps()
        if found == self._stamps:
            return False
        self._stamps = found
        try:
            self._build("", verify=False)
        except OSError as error:
            _log.error("Changed proxy client certificate files are not taken up", extra={"err": error})
            return False
        self._contexts.clear()
        _log.info("Took up changed proxy client certificate files", extra={"certificate": str(self._certificate)})
        return True

    def _read_stamps(self) -> tuple[Stamp | None, ...]:
        return stamps(path for path in (self._certificate, self._key) if path is not None)

    def _build(self, bundle: str, *, verify: bool) -> ssl.SSLContext:
        text = base64.b64decode(bundle).decode() if bundle and verify else None
        context = ssl.create_default_context(cadata=text)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if not verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self._certificate is not None:
            context.load_cert_chain(self._certificate, self._key, password=str)  # an encrypted key fails, not asks
        return context
