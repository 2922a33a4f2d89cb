"""Tests for the self-signed serving certificate."""

from __future__ import annotations

import ssl
import stat

import pytest

from nodeagent.server import serving_certificate as module
from nodeagent.server.serving_certificate import ensure_self_signed, self_signed_pair


@pytest.fixture
def pair(tmp_path):
    pair = self_signed_pair(tmp_path / "pki")
    module._generate(pair.certificate, pair.key, ["node-1", "10.0.0.1"])
    return pair


@pytest.fixture
def generates(monkeypatch):
    """Return the number of child processes, none of which is started."""
    started = []

    async def start(*arguments, **_options):
        started.append(arguments)
        raise ChildProcessError

    monkeypatch.setattr(module.asyncio, "create_subprocess_exec", start)
    return started


async def test_valid_certificate_is_used_again(pair, generates):
    assert await ensure_self_signed(pair.certificate.parent, ["node-1"]) == pair
    assert generates == []


@pytest.mark.parametrize("missing", ["certificate", "key"])
async def test_missing_file_is_generated_without_a_log_message(pair, generates, caplog, missing):
    getattr(pair, missing).unlink()
    with pytest.raises(ChildProcessError):
        await ensure_self_signed(pair.certificate.parent, ["node-1"])
    assert generates[0][-1] == "node-1" and caplog.messages == []


async def test_certificate_of_another_key_is_replaced(pair, generates, caplog):
    other = pair.key.with_name("other.key")
    module._generate(pair.certificate, other, ["node-1"])
    with pytest.raises(ChildProcessError):
        await ensure_self_signed(pair.certificate.parent, ["node-1"])
    assert caplog.messages == ["Replacing invalid serving certificate"]


def test_generated_key_is_private_and_the_certificate_is_for_all_names(pair):
    assert stat.S_IMODE(pair.key.stat().st_mode) == 0o600
    details = ssl._ssl._test_decode_cert(str(pair.certificate))
    assert set(details["subjectAltName"]) == {("DNS", "node-1"), ("IP Address", "10.0.0.1")}
