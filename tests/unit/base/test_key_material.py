"""Tests for certificates and keys of a kubeconfig: inline, in files, and mixed."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from nodeagent.base import tls
from nodeagent.base.key_material import NO_MATERIAL, Material, load_key_pair

PAIR = tls.issue(tls.generate_ca("ca"), "node", client=True)


@pytest.mark.parametrize("certificate_in_file", [True, False])
@pytest.mark.parametrize("key_in_file", [True, False])
def test_pair_is_loaded_wherever_its_parts_are(tmp_path: Path, certificate_in_file: bool, key_in_file: bool) -> None:
    (tmp_path / "crt").write_bytes(PAIR.certificate)
    (tmp_path / "key").write_bytes(PAIR.key)
    certificate = Material(file=tmp_path / "crt") if certificate_in_file else Material(PAIR.certificate)
    key = Material(file=tmp_path / "key") if key_in_file else Material(PAIR.key)

    load_key_pair(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), certificate, key)

    assert (certificate.read(), key.read()) == (PAIR.certificate, PAIR.key)


def test_key_of_another_certificate_is_an_error() -> None:
    other = tls.issue(tls.generate_ca("other"), "node", client=True)

    with pytest.raises(ssl.SSLError):
        load_key_pair(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), Material(PAIR.certificate), Material(other.key))


def test_material_is_true_with_data_or_a_file(tmp_path: Path) -> None:
    assert not NO_MATERIAL
    assert Material(b"x")
    assert Material(file=tmp_path)
    assert "secret" not in repr(Material(b"secret"))
