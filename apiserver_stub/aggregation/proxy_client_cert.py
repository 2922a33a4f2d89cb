"""Client certificate for extension API servers and admission webhooks (spec: opt.proxy-client-*)."""

from __future__ import annotations

import asyncio
import base64
import ssl
from pathlib import Path

from apiserver_stub.transport.reloading_files import ReloadingFiles
from nodeagent.base.tls import TlsError

_MOST_CONTEXTS = 100


class ClientPair(ReloadingFiles):
    """Factory of TLS contexts for connections to Services; without files, no client certificate is presented.

    Reads files.

    :raises TlsError: the files are invalid.
    """

    def __init__(self, certificate: Path | None, key: Path | None) -> None:
        self._certificate, self._key = certificate, key
        super().__init__("proxy client certificate", (path for path in (certificate, key) if path is not None))
        self._contexts: dict[tuple[str, bool], ssl.SSLContext] = {}
        try:
            self._build("", verify=False)
        except OSError as error:  # Includes ssl.SSLError.
            named = next((path for path in (certificate, key) if path is not None and not path.is_file()), None)
            problem = f"open {named}: no such file or directory" if named else f"{certificate}, {key}: {error}"
            raise TlsError(problem) from error

    async def context(self, bundle: str, *, verify: bool = True) -> ssl.SSLContext:
        """Return a context that trusts *bundle* (base64 as in objects; empty: the system's CAs), or any server.

        :param verify: false to skip certificate verification.
        :raises ValueError: the bundle is not valid base64 or contains no certificates.
        :raises OSError: the bundle is invalid, or the files cannot be read.
        """
        found = self._contexts.get((bundle, verify))
        if found is None:
            found = await asyncio.to_thread(self._build, bundle, verify=verify)
            if len(self._contexts) >= _MOST_CONTEXTS:  # Bounds the bundles of deleted objects.
                self._contexts.clear()
            self._contexts[bundle, verify] = found
        return found

    def new_context(self, bundle: str) -> ssl.SSLContext:
        """Return a context like :meth:`context` for one user, which may replace the client certificate. Reads files.

        :raises ValueError: the bundle is not valid base64 or contains no certificates.
        :raises OSError: the bundle is invalid, or the files cannot be read.
        """
        return self._build(bundle, verify=True)

    def _apply(self) -> None:
        self._build("", verify=False)
        self._contexts.clear()

    def _build(self, bundle: str, *, verify: bool) -> ssl.SSLContext:
        text = base64.b64decode(bundle).decode() if bundle and verify else None
        context = ssl.create_default_context(cadata=text)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if not verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self._certificate is not None:
            context.load_cert_chain(
                self._certificate, self._key, password=str
            )  # An encrypted key fails instead of prompting.
        return context
