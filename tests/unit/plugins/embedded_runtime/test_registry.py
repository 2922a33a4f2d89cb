"""Tests for the registry client."""

from __future__ import annotations

import base64
import platform
from types import SimpleNamespace

import pytest

from nodeagent.base.criproto import api_pb2 as cri
from nodeagent_plugins.embedded_runtime.errors import CallError
from nodeagent_plugins.embedded_runtime.images import registry as registry_module
from nodeagent_plugins.embedded_runtime.images.loading import choose_manifest
from nodeagent_plugins.embedded_runtime.images.registry import Credentials, is_plain


@pytest.mark.parametrize("registry", ["localhost", "localhost:5000", "127.0.0.1:5000", "[::1]:5000", "lab:80"])
def test_local_and_listed_registries_are_accessed_without_tls(registry):
    assert is_plain(registry, ["lab:80"])


@pytest.mark.parametrize("registry", ["example.com", "10.0.0.1:5000", "lab", "localhost.example.com"])
def test_other_registries_are_accessed_with_tls(registry):
    assert not is_plain(registry, ["lab:80"])


def test_credentials_are_read_from_both_fields():
    encoded = base64.b64encode(b"user:pass:word").decode()

    assert Credentials.of(cri.AuthConfig(auth=encoded)) == Credentials("user", "pass:word")
    assert Credentials.of(cri.AuthConfig(username="u", password="p")) == Credentials("u", "p")
    with pytest.raises(CallError, match="not valid base64"):
        Credentials.of(cri.AuthConfig(auth="!"))


def test_repr_of_credentials_contains_no_password():
    assert "secret" not in repr(Credentials("user", "secret"))


def test_manifest_for_the_host_architecture_is_selected():
    architecture = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    entries = [{"platform": {"os": "linux", "architecture": a}, "digest": a} for a in ("s390x", architecture)]

    assert choose_manifest({"manifests": entries})["digest"] == architecture
    with pytest.raises(CallError, match="only for s390x"):
        choose_manifest({"manifests": entries[:1]})


async def test_content_of_a_response_has_a_limit():
    class Content:
        async def iter_chunked(self, _size):
            yield b"12"
            yield b"34"

    response = SimpleNamespace(content=Content(), url=SimpleNamespace(path="/v2/x"))
    assert await registry_module._read(response, 4) == b"1234"
    with pytest.raises(CallError, match="/v2/x is larger than 3 bytes"):
        await registry_module._read(response, 3)
