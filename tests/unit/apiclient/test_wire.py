"""Tests for the encoding of objects."""

from __future__ import annotations

from nodeagent.apiclient import wire
from nodeagent.base import apiproto, identity


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
