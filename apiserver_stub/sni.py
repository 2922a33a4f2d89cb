"""Certificates by the name that the client asks for (spec: opt.tls-sni-cert-key)."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path

from apiserver_stub.options.tls import NamedPair
from nodeagent.base.stamps import Stamp, stamps
from nodeagent.base.tls import TlsError, is_ip, names_of

_log = logging.getLogger(__name__)

POLL_SECONDS = 2.0
Build = Callable[[Path, Path], ssl.SSLContext]


class NamedCertificates:
    """Chooses among several certificates; changed files are taken up.

    An exact name wins over a wildcard, a name from the options over one from a certificate, the first pair over later
    ones. A wildcard stands for one label.

    :param build: makes the context of a pair.
    :param address: the one address that the server is bound to, if it is one: for clients that name nothing.
    :raises TlsError: a pair is no good.
    """

    def __init__(self, pairs: Sequence[NamedPair], build: Build, *, address: str = "") -> None:
        self._pairs, self._build, self._address = pairs, build, address
        self._stamps = self._read_stamps()
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

    async def keep_current(self) -> None:
        """Take up changed files until cancelled; pairs that do not fit are told and those in use stay."""
        while True:
            await asyncio.sleep(POLL_SECONDS)
            await asyncio.to_thread(self.reload)

    def reload(self) -> bool:
        """Take up the files if they changed; returns whether new connections see others."""
        found = self._read_stamps()
        if found == self._stamps:
            return False
        self._stamps = found
        try:
            self._table = self._read()
        except TlsError as error:
            _log.error("Changed certificate files are not taken up", extra={"err": error})
            return False
        return True

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

    def _read_stamps(self) -> tuple[Stamp | None, ...]:
        return stamps(file for pair in self._pairs for file in (pair.certificate, pair.key))
