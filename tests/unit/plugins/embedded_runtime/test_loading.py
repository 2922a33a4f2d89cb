"""Tests for the documents of images: sizes, digests, manifests and their lists."""

from __future__ import annotations

from typing import Any

import pytest

from nodeagent_plugins.embedded_runtime.errors import CallError
from nodeagent_plugins.embedded_runtime.images import loading
from nodeagent_plugins.embedded_runtime.images.loading import decode, is_digest, is_index, section, sections, size_of


@pytest.mark.parametrize("size", [0, 1, (1 << 63) - 1])
def test_size_of_a_blob_is_a_number_of_63_bits(size: int) -> None:
    assert size_of({"size": size}) == size


@pytest.mark.parametrize("size", [-1, 1 << 63, "1", 1.5, True, [1]])
def test_invalid_size_of_a_blob_is_rejected(size: Any) -> None:
    with pytest.raises(CallError, match="invalid size of blob sha256:x"):
        size_of({"digest": "sha256:x", "size": size})


def test_missing_size_is_zero() -> None:
    assert size_of({}) == size_of({"size": None}) == 0
    assert loading.total_size([{"size": 1}, {}, {"size": 2}]) == 3


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        ({"manifests": []}, True),
        ({"manifests": [], "mediaType": "application/vnd.oci.image.index.v1+json"}, True),
        ({"layers": [], "config": {}}, False),
        ({"layers": [{}]}, False),
        ({}, False),
    ],
)
def test_list_of_manifests_is_recognized(manifest: dict[str, Any], expected: bool) -> None:
    assert is_index(manifest) is expected


@pytest.mark.parametrize(
    "other",
    [
        {"layers": [{}]},
        {"config": {"digest": "x"}},
        {"mediaType": "application/vnd.oci.image.manifest.v1+json"},
        {"mediaType": "application/vnd.docker.distribution.manifest.v2+json"},
    ],
)
def test_manifest_with_layers_and_manifests_is_ambiguous(other: dict[str, Any]) -> None:
    with pytest.raises(CallError, match="ambiguous manifest"):
        is_index({"manifests": [], **other})


def test_sections_of_documents_have_their_type() -> None:
    document = {"a": {"b": 1}, "list": [{}], "null": None, "wrong": "x", "mixed": [{}, 1]}
    assert section(document, "a") == {"b": 1} and section(document, "null") == section(document, "none") == {}
    assert list(sections(document, "list")) == [{}] and not sections(document, "null") and not sections({}, "none")
    for name in ("wrong", "mixed"):
        with pytest.raises(CallError, match=f"{name} is not a list of objects"):
            sections(document, name)
    with pytest.raises(CallError, match="wrong is not an object"):
        section(document, "wrong")


def test_invalid_document_names_its_kind() -> None:
    assert decode(b'{"a": 1}', "manifest") == {"a": 1}
    for content in (b"x", b"[]", b"[" * 100_000):
        with pytest.raises(CallError, match="manifest: "):
            decode(content, "manifest")


@pytest.mark.parametrize("text", [None, 7, "", "sha256:" + "a" * 63, "sha256:" + "A" * 64, "sha512:" + "a" * 128])
def test_other_texts_are_not_digests(text: Any) -> None:
    assert not is_digest(text)
    assert is_digest("sha256:" + "a" * 64) and is_digest(loading.digest_of(b""))
