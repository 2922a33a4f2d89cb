"""Certificates by the name that the client asks for (spec: opt.tls-sni-cert-key)."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from apiserver_stub.transport.reloading_files import ReloadingFiles
from nodeagent.base.names import is_ip
from nodeagent.base.tls import TlsError, names_of

Build = Callable[[Path, Path], ssl.SSLContext]


@dataclass(frozen=True, slots=True)
class NamedPair:
    """A certificate with its key, and the names it is for; without any they are taken from the certificate."""

    certificate: Path
    key: Path
    names: tuple[str, ...] = ()


class NamedCertificates(ReloadingFiles):
    """Chooses among several certificates; changed files are taken up.

    An exact name wins over a wildcard, a name from the options over one from a certificate, the first pair over later
    ones. A wildcard stands for one label.

    :param build: makes the context of a pair.
    :param address: the one address that the server is bound to, if it is one: for clients that name nothing.
    :param follow: files that *build* reads besides.
    :raises TlsError: a pair is no good.
    """

    def __init__(
        self, pairs: Sequence[NamedPair], build: Build, *, address: str = "", follow: Iterable[Path] = ()
    ) -> None:
        self._pairs, self._build, self._address = pairs, build, address
        files = [file for pair in pairs for file in (pair.certificate, pair.key)]
        super().__init__("certificates by name", (*files, *follow))
        self._table = self._read()

    def attach(self, context: ssl.SSLContext) -> None:
        """Let connections that begin with *context* go on with the certificate they ask for."""

        def choose(connection: ssl.SSLObject | ssl.SSLSocket, name: str | None, _: ssl.SSLContext) -> None:
            found = self.find(name or "")
            if found is not None:
                connection.context = found

        context.sni_callback = choose

    def find(self, name: str) -> ssl.SSLContext | None:
        """Return the context for *name*, ``None`` for the server's own; an empty name is a client that names none."""
        if not name:
            return self._table.get(self._address) if self._address else None
        name = name.lower().rstrip(".")
        return self._table.get(name) or self._table.get("*." + name.partition(".")[2])

    def _take_up(self) -> None:
        self._table = self._read()

    def _read(self) -> dict[str, ssl.SSLContext]:
        table: dict[str, ssl.SSLContext] = {}
        taken: dict[str, ssl.SSLContext] = {}
        for pair in self._pairs:
            try:
                context = self._build(pair.certificate, pair.key)
                found = names_of(pair.certificate.read_bytes()) if not pair.names else []
            except (OSError, ValueError) as error:
                raise TlsError(f"failed to load SNI cert and key: {error}") from error
            for name in pair.names:
                table.setdefault(name.lower(), context)
            for name in found:
                if not is_ip(name):
                    taken.setdefault(name.lower(), context)
        return {**taken, **table}
