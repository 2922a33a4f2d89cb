"""Tests for the secure port before and after its certificate is issued."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from nodeagent.base.tls import issue
from nodeagent.contracts.settings import NodeSettings
from nodeagent.testing import FakeClock
from tests.integration.server.conftest import Pki, serving


@pytest.mark.row("config.serverTLSBootstrap")
async def test_handshakes_fail_until_the_certificate_is_issued(pki: Pki, tmp_path: Path) -> None:
    directory = tmp_path / "pki"
    directory.mkdir()
    settings = NodeSettings(
        node_name="node-1", root_dir=str(tmp_path), cert_dir=str(directory), kubeconfig=str(tmp_path / "kubeconfig")
    )
    parts = {"settings": settings}
    async with serving(pki, tmp_path, tls_files=False, server_tls_bootstrap=True, parts=parts) as running:
        with pytest.raises((ssl.SSLError, OSError)):
            await running.connect()
        assert list(directory.glob("*.crt")) == []  # No self-signed one is created.

        for name in ("first", "second"):
            pair = issue(pki.ca, name, names=["127.0.0.1", name], server=True)
            (directory / "kubelet-server-current.pem").write_bytes(pair.certificate + pair.key)
            assert isinstance(running.context.clock, FakeClock)
            running.context.clock.jump(2)
            _, writer = await running.connect()
            shown = writer.get_extra_info("peercert")
            assert ("DNS", name) in shown["subjectAltName"]
            writer.close()
            await writer.wait_closed()
