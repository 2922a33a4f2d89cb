"""Serving certificates selected by SNI server name (spec: opt.tls-sni-cert-key)."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from apiserver_stub.transport.reloading_files import ReloadingFiles
from nodeagent.base.names import is_ip
from nodeagent.base.structs import Struct
from nodeagent.base.tls import TlsError, names_of

Build = Callable[[Path, Path], ssl.SSLContext]


class NamedPair(Struct, frozen=True):
    """A certificate with its key and server names; without names, those of the certificate apply."""

    certificate: Path
    key: Path
    names: tuple[str, ...] = ()


class NamedCertificates(ReloadingFiles):
    """Selects among several certificates; reloads changed files.

    An exact name takes precedence over a wildcard, a name from the options over one from a certificate, and an earlier
    certificate over later ones. A wildcard matches one label.

    :param build: builds the context of a certificate and key.
    :param address: the address that the server is bound to, empty for all: the name of clients that send none.
    :param follow: further files that *build* reads.
    :raises TlsError: a certificate or key is invalid or does not match.
    """

    def __init__(
        self, pairs: Sequence[NamedPair], build: Build, *, address: str = "", follow: Iterable[Path] = ()
    ) -> None:
        self._pairs, self._build, self._address = pairs, build, address
        files = [file for pair in pairs for file in (pair.certificate, pair.key)]
        super().__init__("certificates by name", (*files, *follow))
        self._table = self._read()

    def attach(self, context: ssl.SSLContext) -> None:
        """Make connections of *context* use the certificate for the server name that the client sends."""

        def choose(connection: ssl.SSLObject | ssl.SSLSocket, name: str | None, _: ssl.SSLContext) -> None:
            selected = self.find(name or "")
            if selected is not None:
                connection.context = selected

        context.sni_callback = choose

    def find(self, name: str) -> ssl.SSLContext | None:
        """Return the context for *name* (empty: the client sent none), ``None`` for the server's default."""
        if not name:
            return self._table.get(self._address) if self._address else None
        name = name.lower().rstrip(".")
        return self._table.get(name) or self._table.get("*." + name.partition(".")[2])

    def _apply(self) -> None:
        self._table = self._read()

    def _read(self) -> dict[str, ssl.SSLContext]:
        table: dict[str, ssl.SSLContext] = {}
        from_certificates: dict[str, ssl.SSLContext] = {}
        for pair in self._pairs:
            try:
                context = self._build(pair.certificate, pair.key)
                names = names_of(pair.certificate.read_bytes()) if not pair.names else []
            except (OSError, ValueError) as error:
                raise TlsError(f"failed to load SNI cert and key: {error}") from error
            for name in pair.names:
                table.setdefault(name.lower(), context)
            for name in names:
                if not is_ip(name):
                    from_certificates.setdefault(name.lower(), context)
        return {**from_certificates, **table}
