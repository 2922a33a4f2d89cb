"""Tests for the codec of stored objects: one format for writes, all formats for reads."""

from __future__ import annotations

import pytest

from apiserver_stub.apimachinery import media, objects
from apiserver_stub.storage.codec import StorageCodec
from apiserver_stub.storage.encryption import DecryptionError, Encryption
from apiserver_stub.storage.layout import Layout
from nodeagent.base.identity import Identity

PROTOBUF = "application/vnd.kubernetes.protobuf"

LAYOUT = Layout("/registry", {})
POD = {
    "kind": "Pod",
    "apiVersion": "v1",
    "metadata": {"name": "p", "namespace": "ns", "creationTimestamp": "2024-01-02T03:04:05Z"},
    "spec": {"containers": [{"name": "c", "image": "i", "args": ["a: b", "\u00e4"]}], "volumes": [{"emptyDir": {}}]},
}
OWN = {"kind": "Widget", "apiVersion": "example.org/v1", "metadata": {"name": "w"}, "size": 3}


def coding(media_type: str) -> StorageCodec:
    return StorageCodec(LAYOUT, Encryption(), Identity(), media_type)


@pytest.mark.parametrize("media_type", [media.JSON, media.YAML, PROTOBUF])
@pytest.mark.parametrize("obj", [POD, OWN])
def test_each_format_is_read_independently_of_the_write_format(media_type: str, obj: objects.Object) -> None:
    stored, _ = coding(media_type).write("core/pods", "ns/p", objects.encode_for_store(obj))

    data, _ = coding(media.JSON).read("core/pods", "ns/p", stored)

    assert objects.decode(data) == obj
    assert data.startswith(
        b'{"kind":"%s","apiVersion":"%s","metadata":{' % (obj["kind"].encode(), obj["apiVersion"].encode())
    )


def test_json_of_other_servers_is_normalized() -> None:
    stored = b'{"metadata":{"resourceVersion":"7","name":"p"},"apiVersion":"v1","kind":"Pod"}\n'

    data, _ = coding(media.JSON).read("core/pods", "ns/p", stored)

    assert data == b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p"}}'


@pytest.mark.parametrize("stored", [b"", b"[]", b"{", b"k8s\0xx", b"\xff\xff", b"{}"])
def test_value_that_is_not_an_object_is_reported(stored: bytes) -> None:
    with pytest.raises(DecryptionError):
        coding(media.JSON).read("core/pods", "ns/p", stored)
