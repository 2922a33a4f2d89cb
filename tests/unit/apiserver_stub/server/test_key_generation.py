"""Tests for the generation of keys and certificates in a child process."""

from __future__ import annotations

from pathlib import Path

import pytest

from apiserver_stub.options import Options, parse
from apiserver_stub.server.key_generation import KeyGeneration
from nodeagent.base.tls import TlsError, generate_ca, issue

FILES = {
    "certs/apiserver.crt",
    "certs/apiserver.key",
    "certs/ca.crt",
    "certs/ca.key",
    "certs/nodeagent-client-ca.crt",
    "certs/nodeagent-client-ca.key",
    "certs/nodeagent-client.crt",
    "certs/nodeagent-client.key",
    "service-account.key",
}


def options(directory: Path, *arguments: str) -> Options:
    return parse([f"--data-dir={directory / 'data'}", *arguments])


def contents(directory: Path) -> dict[str, bytes]:
    data = directory / "data"
    return {str(path.relative_to(data)): path.read_bytes() for path in data.rglob("*") if path.is_file()}


def test_missing_files_are_generated_and_valid_ones_kept(tmp_path: Path) -> None:
    authority = KeyGeneration(options(tmp_path)).result()

    assert authority == tmp_path / "data/certs/ca.crt"
    first = contents(tmp_path)
    assert first.keys() == FILES
    assert KeyGeneration(options(tmp_path)).result() == authority
    assert contents(tmp_path) == first


def test_certificate_of_others_is_its_own_authority(tmp_path: Path) -> None:
    pair = issue(generate_ca("others"), "web", names=["localhost"], server=True)
    certificates = tmp_path / "certificates"
    certificates.mkdir()
    (certificates / "apiserver.crt").write_bytes(pair.certificate)
    (certificates / "apiserver.key").write_bytes(pair.key)

    authority = KeyGeneration(options(tmp_path, f"--cert-dir={certificates}")).result()

    assert authority == certificates / "apiserver.crt"
    assert authority.read_bytes() == pair.certificate


def test_invalid_token_key_is_reported_by_the_parent(tmp_path: Path) -> None:
    KeyGeneration(options(tmp_path)).result()
    (tmp_path / "data/service-account.key").write_text("not a key")

    with pytest.raises(TlsError, match=r"service-account\.key: data does not contain a valid RSA or ECDSA private key"):
        KeyGeneration(options(tmp_path)).result()


@pytest.mark.parametrize("configured", [True, False])
def test_client_certificate_is_generated_unless_configured(tmp_path: Path, configured: bool) -> None:
    names = ("--nodeagent-client-certificate=/c", "--nodeagent-client-key=/k") if configured else ()

    KeyGeneration(options(tmp_path, *names)).result()

    assert ("certs/nodeagent-client.crt" in contents(tmp_path)) is not configured


@pytest.mark.parametrize("missing", ["ca.crt", "ca.key"])
def test_incomplete_ca_is_generated_again(tmp_path: Path, missing: str) -> None:
    authority = KeyGeneration(options(tmp_path)).result()
    before = authority.read_bytes()
    (tmp_path / "data/certs" / missing).unlink()

    assert KeyGeneration(options(tmp_path)).result() == authority

    assert authority.read_bytes() != before
    assert authority.read_bytes() in (tmp_path / "data/certs/apiserver.crt").read_bytes()
