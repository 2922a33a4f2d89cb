"""Protobuf: API objects, watch streams, responses of runtimes and plugins."""

from __future__ import annotations

from typing import Any

from google.protobuf.message import DecodeError

from nodeagent.base import apiproto
from nodeagent.base.apiproto import framing
from nodeagent.base.criproto import api_pb2 as cri
from nodeagent.errors import DeviceError
from nodeagent_plugins.cri import responses
from nodeagent_plugins.devices.wire import decode_response, encode_response
from tests.fuzz.target import target

KINDS = (
    ("v1", "Pod"),
    ("v1", "Node"),
    ("v1", "PodList"),
    ("v1", "Secret"),
    ("v1", "Event"),
    ("apps/v1", "Deployment"),
    ("coordination.k8s.io/v1", "Lease"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"),
)
WIRE = (
    b"k8s\x00",
    b"\x0a\x00",
    b"\x12\x80\x01",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\x0b\x0c",
    b"\x08\x01",
    b"\x1a\x04gzip",
)


@target(apiproto.ProtobufError, tokens=(*WIRE, b"\x12\x03Pod", b"\x0a\x02v1"))
def api_object(data: bytes) -> None:
    """A decoded object can be encoded, and is decoded as the same object."""
    if data.startswith(framing.MAGIC):
        _round_trip(data)
    elif data:
        version, kind = KINDS[data[0] % len(KINDS)]
        _round_trip(framing.wrap(framing.Envelope(version, kind, data[1:])))


def _round_trip(data: bytes) -> None:
    for keep_unrecognized in (False, True):
        obj = apiproto.decode(data, keep_unrecognized=keep_unrecognized)
        again = apiproto.encode(obj)
        assert apiproto.decode(again, keep_unrecognized=keep_unrecognized) == obj


@target(apiproto.ProtobufError, tokens=(*WIRE, b"\x00\x00\x00\x00", b"\xff\xff\xff\xff", b"ADDED"))
def watch_stream(data: bytes) -> None:
    """The events do not depend on the pieces in which a stream is received."""
    complete = apiproto.WatchFrameDecoder(4096).feed(data)
    decoder = apiproto.WatchFrameDecoder(4096)
    assert [event for at in range(0, len(data), 5) for event in decoder.feed(data[at : at + 5])] == complete


CRI: tuple[tuple[Any, Any], ...] = (
    (cri.PodSandbox, responses.sandbox_info),
    (cri.PodSandboxStatus, responses.sandbox_status),
    (cri.Container, responses.container_info),
    (cri.ContainerStatus, responses.container_status),
    (cri.StatusResponse, lambda message: responses.runtime_status(message, image_volumes=True)),
    (cri.ContainerStats, responses.container_stats),
    (cri.PodSandboxStats, responses.sandbox_stats),
    (cri.ContainerEventResponse, responses.event),
    (cri.Image, responses.image),
    (cri.FilesystemUsage, responses.filesystem_usage),
)


@target(DecodeError, tokens=WIRE)
def cri_response(data: bytes) -> None:
    """Any response that is a message is converted, whatever its numbers."""
    if data:
        message, convert = CRI[data[0] % len(CRI)]
        convert(message.FromString(data[1:]))


@target(DeviceError, tokens=WIRE)
def device_response(data: bytes) -> None:
    """A response that a checkpoint stores is read as the same response."""
    response = decode_response(data)
    assert decode_response(encode_response(response)) == response
