"""Tests for the deferred verification of client certificates."""

from __future__ import annotations

import ssl
from contextlib import suppress
from pathlib import Path

import pytest

from apiserver_stub.transport.handshake import request_certificates
from nodeagent.base.tls import generate_ca, issue, server_context, write_private

CA, OTHER = generate_ca("ca"), generate_ca("other")


@pytest.mark.parametrize("shown", ["known", "foreign", "none"])
def test_handshake_accepts_any_client_certificate(tmp_path: Path, shown: str) -> None:
    pair = issue(CA, "server", names=["localhost"], server=True)
    write_private(tmp_path / "crt", pair.certificate)
    write_private(tmp_path / "key", pair.key)
    context = server_context(tmp_path / "crt", tmp_path / "key")
    request_certificates(context)
    client_context = ssl.create_default_context(cadata=CA.certificate.decode())
    if shown != "none":
        own = issue(CA if shown == "known" else OTHER, shown, client=True)
        write_private(tmp_path / "own", own.key + own.certificate)
        client_context.load_cert_chain(tmp_path / "own")
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = context.wrap_bio(to_server, to_client, server_side=True)
    client = client_context.wrap_bio(to_client, to_server, server_hostname="localhost")

    for _ in range(3):
        for side in (client, server):
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()

    certificate = server.getpeercert()
    subject = dict(pair for names in certificate["subject"] for pair in names) if certificate else {}  # type: ignore[misc,union-attr]
    assert subject.get("commonName") == (None if shown == "none" else shown)
