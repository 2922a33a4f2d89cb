"""Tests for the proxy's client certificate: validation at startup and reloading."""

from __future__ import annotations

import base64
import ssl
from pathlib import Path

import pytest

from apiserver_stub.aggregation.proxy_client_cert import ClientPair
from nodeagent.base.tls import TlsError, generate_ca, issue


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    found = tmp_path / "proxy.crt", tmp_path / "proxy.key"
    write(found, "one")
    return found


def write(files: tuple[Path, Path], name: str) -> None:
    pair = issue(generate_ca("ca"), name, client=True)
    files[0].write_bytes(pair.certificate)
    files[1].write_bytes(pair.key)


def test_invalid_files_are_reported_at_startup(files: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(TlsError, match=r"^open .*nope: no such file or directory$"):
        ClientPair(files[0], tmp_path / "nope")
    other = tmp_path / "other.crt", tmp_path / "other.key"
    write(other, "other")
    with pytest.raises(TlsError, match="MISMATCH"):
        ClientPair(files[0], other[1])


async def test_contexts_are_kept_until_valid_files_are_loaded(files: tuple[Path, Path]) -> None:
    pair = ClientPair(*files)
    first = await pair.context("", verify=False)
    assert await pair.context("", verify=False) is first
    assert not pair.reload()

    files[1].write_bytes(b"spoilt")
    assert not pair.reload()
    assert await pair.context("", verify=False) is first

    write(files, "two")
    assert pair.reload()
    assert await pair.context("", verify=False) is not first


async def test_only_the_configured_ca_bundle_is_trusted() -> None:
    pair = ClientPair(None, None)
    bundle = base64.b64encode(generate_ca("known").certificate).decode()

    context = await pair.context(bundle)

    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert len(context.get_ca_certs()) == 1
    assert (await pair.context(bundle, verify=False)).verify_mode == ssl.CERT_NONE
    with pytest.raises((ValueError, OSError)):
        await pair.context(base64.b64encode(b"no certificate").decode())
