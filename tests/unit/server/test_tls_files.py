"""Tests for the TLS contexts of the secure port when their files change."""

import os

import pytest

from nodeagent.base import tls
from nodeagent.base.atomic_file import write_private
from nodeagent.base.tls import TlsError
from nodeagent.server.tls_files import CHECK_SECONDS, TlsFiles


@pytest.fixture(scope="module")
def ca():
    return tls.generate_ca("ca")


class Files:
    def __init__(self, directory, ca):
        self.certificate, self.key, self.ca = (directory / name for name in ("tls.crt", "tls.key", "ca.crt"))
        self._ca, self._time = ca, 1_000_000_000
        self.issue()
        self.ca.write_bytes(ca.certificate)

    def issue(self):
        pair = tls.issue(self._ca, "node", server=True)
        self.certificate.write_bytes(pair.certificate)
        write_private(self.key, pair.key)
        self.touch(self.certificate)

    def touch(self, path):
        """Give *path* another modification time, whatever the resolution of the file system."""
        self._time += 1
        os.utime(path, (self._time, self._time))


@pytest.fixture
def files(tmp_path, ca):
    return Files(tmp_path, ca)


async def test_changed_files_are_reloaded_at_most_once_per_second(files, clock, caplog):
    caplog.set_level("INFO")
    made = TlsFiles(files.certificate, files.key, clock)
    first = await made.context()
    files.issue()
    assert await made.context() is first
    await clock.advance(CHECK_SECONDS / 2)
    assert await made.context() is first
    await clock.advance(CHECK_SECONDS / 2)
    second = await made.context()
    assert second is not first
    await clock.advance(CHECK_SECONDS)
    assert await made.context() is second
    assert caplog.messages == ["Reloaded TLS files"]


async def test_invalid_files_are_logged_once_and_the_previous_ones_remain(files, clock, caplog):
    made = TlsFiles(files.certificate, files.key, clock)
    first = await made.context()
    files.certificate.write_text("no certificate")
    for _ in range(3):
        await clock.advance(CHECK_SECONDS)
        assert await made.context() is first
    assert caplog.messages == ["Failed to reload TLS files, keeping the previous ones"]
    files.issue()
    await clock.advance(CHECK_SECONDS)
    assert await made.context() is not first


async def test_files_that_were_never_valid_are_an_error(files, clock):
    files.certificate.write_text("no certificate")
    made = TlsFiles(files.certificate, files.key, clock)
    for _ in range(2):
        with pytest.raises(TlsError):
            await made.context()
        await clock.advance(CHECK_SECONDS)


async def test_client_certificates_are_trusted_until_the_ca_bundle_changes(files, clock, ca):
    made = TlsFiles(files.certificate, files.key, clock, client_ca=files.ca)
    first = await made.context()
    assert await made.is_trusted(first)
    files.issue()
    await clock.advance(CHECK_SECONDS)
    second = await made.context()
    assert second is not first
    assert await made.is_trusted(first) and await made.is_trusted(second), "only the server's certificate changed"

    files.ca.write_bytes(tls.generate_ca("other").certificate)
    files.touch(files.ca)
    await clock.advance(CHECK_SECONDS)
    assert not await made.is_trusted(first)
    assert not await made.is_trusted(second)
    assert await made.is_trusted(await made.context())
