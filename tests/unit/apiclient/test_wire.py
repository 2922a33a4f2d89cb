"""Tests for the encoding of objects."""

from __future__ import annotations

import json

import msgspec
import pytest

from nodeagent.apiclient import wire
from nodeagent.base import apiproto, identity
from nodeagent.model.pod import Pod


def test_fields_of_a_later_release_are_written_back() -> None:
    media_type = identity.current().protobuf_media_type
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "n1"},
        "spec": {"holderIdentity": "n1", "#15": "eAU="},
    }
    body = apiproto.encode(lease)

    read = wire.decode(body, media_type, dict)
    ((_, watched),) = wire.frame_reader(media_type).feed(apiproto.encode_watch_frame("ADDED", body))

    assert read == watched == lease
    assert wire.encode(read, media_type)[0] == body


def test_null_equals_an_unset_field() -> None:
    condition = {"type": "Ready", "status": "False", "reason": None}
    plain = {
        "metadata": {"name": "web", "labels": None},
        "spec": {"nodeName": None},
        "status": {"conditions": [condition]},
    }
    text = json.dumps(plain).encode()
    page = json.dumps({"metadata": {"resourceVersion": "1"}, "items": [plain]}).encode()

    pods = [
        wire.convert(plain, Pod),
        wire.convert(msgspec.Raw(text), Pod),
        wire.decode(text, wire.JSON, Pod),
        *wire.decode_page(page, wire.JSON, Pod).items,
    ]

    assert [(pod.name, pod.spec.node_name, pod.status.conditions[0].reason) for pod in pods] == [("web", "", "")] * 4


def test_null_in_a_list_is_rejected() -> None:
    with pytest.raises(ValueError, match=r"\$\.spec\.containers\[0\]"):
        wire.convert({"metadata": {"name": "web"}, "spec": {"containers": [None]}}, Pod)
