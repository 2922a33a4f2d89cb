"""Tests for the parser of image names."""

from __future__ import annotations

import pytest

from nodeagent_plugins.embedded_runtime.errors import InvalidArgument
from nodeagent_plugins.embedded_runtime.images.names import is_id, parse_name

DIGEST = "sha256:" + "ab" * 32


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("busybox", "docker.io/library/busybox:latest"),
        ("shop/tool:1", "docker.io/shop/tool:1"),
        ("localhost/tool", "localhost/tool:latest"),
        ("127.0.0.1:5000/a/b:v1.2-x", "127.0.0.1:5000/a/b:v1.2-x"),
        ("example.com/a@" + DIGEST, "example.com/a@" + DIGEST),
        ("example.com/a:1@" + DIGEST, "example.com/a:1@" + DIGEST),
    ],
)
def test_short_name_is_completed_with_registry_and_tag(text, full):
    assert str(parse_name(text)) == full


@pytest.mark.parametrize("text", ["", "Upper", "a b", "../etc", "a:", "a@sha256:12", "example.com/A", "/a", "a//b"])
def test_invalid_name_is_rejected(text):
    with pytest.raises(InvalidArgument, match="invalid image name"):
        parse_name(text)


def test_ids_are_distinguished_from_names():
    assert is_id(DIGEST)
    assert is_id("ab" * 32)
    assert not is_id("busybox")
    assert not is_id("example.com/a@" + DIGEST)
