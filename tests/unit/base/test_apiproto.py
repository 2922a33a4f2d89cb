"""Tests for the protobuf codec: round trips and the published encoding."""

from __future__ import annotations

import importlib
import itertools
import subprocess
import sys
from functools import cache
from types import SimpleNamespace

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import EncodeError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nodeagent.base import apiproto, gotime, identity
from nodeagent.base.apiproto import ProtobufError, codec, registry, special


def field(number: int, content: bytes) -> bytes:
    """One length-delimited field, written by hand."""
    assert len(content) < 128
    return bytes((number << 3 | 2, len(content))) + content


def envelope(api_version: bytes, kind: bytes, raw: bytes) -> bytes:
    return b"k8s\x00" + field(1, field(1, api_version) + field(2, kind)) + field(2, raw) + b"\x1a\x00\x22\x00"


LEASE = {
    "apiVersion": "coordination.k8s.io/v1",
    "kind": "Lease",
    "metadata": {"name": "n1"},
    "spec": {"holderIdentity": "n1", "leaseDurationSeconds": 40, "renewTime": "1970-01-01T00:00:05.000007Z"},
}
LEASE_BYTES = envelope(
    b"coordination.k8s.io/v1",
    b"Lease",
    field(1, field(1, b"n1")) + field(2, field(1, b"n1") + b"\x10\x28" + field(4, b"\x08\x05\x10\xd8\x36")),
)


@pytest.mark.parametrize(
    "schema",
    [
        {"items": []},
        {"items": [{"type": "string"}]},
        {"items": {"type": "string"}},
        {"additionalProperties": False},
        {"additionalProperties": True},
        {"additionalProperties": {"type": "string"}},
        {"dependencies": {"a": [], "b": ["c"], "d": {"type": "string"}}},
    ],
)
def test_alternatives_of_a_schema_keep_their_type(schema):
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "a"},
        "spec": {"group": "g", "names": {"plural": "p", "kind": "K"}, "scope": "Cluster", "versions": [version]},
    }

    decoded = apiproto.decode(apiproto.encode(definition))

    assert decoded["spec"]["versions"][0]["schema"]["openAPIV3Schema"] == schema


def test_object_is_encoded_as_published():
    assert apiproto.encode(LEASE) == LEASE_BYTES


def test_published_encoding_is_decoded():
    assert apiproto.decode(LEASE_BYTES) == LEASE


def test_empty_scalars_and_times_are_omitted():
    raw = field(1, field(1, b"e") + field(3, b"") + b"\x38\x00" + field(8, b"")) + field(4, b"") + field(2, b"")

    event = apiproto.decode(envelope(b"events.k8s.io/v1", b"Event", raw))

    assert event == {"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"}}


def test_options_of_a_third_party_volume_driver_survive():
    source = {
        "driver": "acme/disk",
        "fsType": "ext4",
        "secretRef": {"name": "s"},
        "readOnly": True,
        "options": {"a": "b"},
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "spec": {"volumes": [{"name": "data", "flexVolume": source}]}}

    decoded = apiproto.decode(apiproto.encode(pod))

    assert decoded["spec"]["volumes"] == pod["spec"]["volumes"]


def test_zeros_of_fields_that_json_always_has_survive():
    status = {"name": "c", "ready": False, "restartCount": 0, "image": "", "imageID": "", "state": {}, "lastState": {}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "resources": {}}], "terminationGracePeriodSeconds": 0},
        "status": {"containerStatuses": [status]},
    }

    assert apiproto.decode(apiproto.encode(pod)) == pod


def test_fields_of_inlined_messages_are_in_the_outer_object():
    probe = {"httpGet": {"path": "/", "port": "web"}, "periodSeconds": 3}
    reference = {"configMapKeyRef": {"name": "settings", "key": "k", "optional": False}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {},
        "spec": {
            "volumes": [{"name": "scratch", "emptyDir": {"sizeLimit": "1Gi"}}],
            "containers": [
                {"name": "c", "livenessProbe": probe, "env": [{"name": "A", "valueFrom": reference}]},
            ],
            "ephemeralContainers": [{"name": "debug", "image": "busybox", "targetContainerName": "c"}],
        },
    }

    assert apiproto.decode(apiproto.encode(pod)) == pod


def test_special_types_keep_their_json_form():
    managed = {"manager": "m", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"f:k": {}}}}
    objects = [
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"managedFields": [managed]}, "data": {"k": "AAH/"}},
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {},
            "spec": {
                "clusterIP": "10.0.0.1",
                "ports": [{"port": 80, "targetPort": 8080}, {"port": 81, "targetPort": "x"}],
            },
        },
        {"apiVersion": "v1", "kind": "Node", "metadata": {}, "status": {"capacity": {"cpu": "2", "memory": "4Gi"}}},
        {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": [{"kind": "Pod", "spec": {"nodeName": "n"}}]},
        {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "metadata": {},
            "spec": {"token": "t"},
            "status": {"user": {"username": "u", "extra": {"scopes": ["a", "b"]}}},
        },
    ]

    assert [apiproto.decode(apiproto.encode(obj)) for obj in objects] == objects


def test_nulls_and_unknown_fields_are_omitted():
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"creationTimestamp": None, "shoeSize": 44}, "x": [1]}

    assert apiproto.decode(apiproto.encode(obj)) == {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}}


UNRECOGNIZED = field(15, b"later") + b"\x78\x05" + b"\x7d\x01\x02\x03\x04" + b"\x79" + bytes(8)
"""Fields 15 of all wire types, which no definition has."""


def test_unrecognized_fields_are_dropped_by_default():
    lease = envelope(b"coordination.k8s.io/v1", b"Lease", field(2, UNRECOGNIZED + field(1, b"n1")))

    assert apiproto.decode(lease)["spec"] == {"holderIdentity": "n1"}


def test_kept_unrecognized_fields_are_written_back():
    lease = envelope(b"coordination.k8s.io/v1", b"Lease", field(2, field(1, b"n1") + UNRECOGNIZED) + UNRECOGNIZED)

    decoded = apiproto.decode(lease, keep_unrecognized=True)

    assert set(decoded["spec"]) == {"holderIdentity", "#15"}
    assert apiproto.encode(decoded) == lease


def test_invalid_unrecognized_field_is_an_error():
    with pytest.raises(ProtobufError, match=r"^spec\.#15: "):
        apiproto.encode({**LEASE, "spec": {"#15": "not base64"}})


def test_empty_list_has_items():
    empty = {"apiVersion": "v1", "kind": "PodList", "metadata": {"resourceVersion": "7"}, "items": []}

    assert apiproto.decode(apiproto.encode(empty)) == empty


def test_embedded_json_nested_too_deeply_is_rejected():
    deep = b"[" * 100_000
    managed = b"\x3a" + length(b"\x0a" + length(deep))
    raw = b"\x0a" + length(b"\x8a\x01" + length(managed))

    with pytest.raises(apiproto.ProtobufError):
        apiproto.decode(b"k8s\x00" + field(1, field(1, b"v1") + field(2, b"ConfigMap")) + b"\x12" + length(raw))


def length(content: bytes) -> bytes:
    """*content* after its length, for sizes that take three bytes."""
    size = len(content)
    return bytes((size & 0x7F | 0x80, size >> 7 & 0x7F | 0x80, size >> 14)) + content


@pytest.mark.parametrize("time", ["0001-01-01T00:00:01Z", "0999-12-31T23:59:59Z", "9999-12-31T23:59:59Z"])
def test_every_year_of_four_digits_survives(time):
    pod = {"kind": "Pod", "apiVersion": "v1", "metadata": {"creationTimestamp": time}}

    assert apiproto.decode(apiproto.encode(pod))["metadata"] == {"creationTimestamp": time}


def test_time_with_an_offset_is_converted_to_utc():
    obj = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"creationTimestamp": "2024-01-02T04:04:05.9+01:00"},
        "eventTime": "2024-01-02T03:04:05.1234567Z",
    }

    event = apiproto.decode(apiproto.encode(obj))

    assert event["metadata"]["creationTimestamp"] == "2024-01-02T03:04:05Z"
    assert event["eventTime"] == "2024-01-02T03:04:05.123456Z"


def test_error_names_the_path_of_an_invalid_value():
    pod = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"ports": [{"containerPort": "http"}]}]}}

    with pytest.raises(ProtobufError, match=r"spec\.containers\.ports\.containerPort"):
        apiproto.encode(pod)


@pytest.mark.parametrize(
    "value",
    [
        {"metadata": {"creationTimestamp": "yesterday"}},
        {"metadata": {"labels": {"a": 1}}},
        {"metadata": "m"},
        {"metadata": []},
        {"metadata": {"finalizers": "abc"}},
        {"metadata": {"ownerReferences": {"kind": "Pod"}}},
        {"data": {"k": "not base64!"}},
        {"data": {"k": 2**62}},  # Not the number of bytes to allocate.
        {"data": {"k": [1]}},
        {"immutable": 2**70},
    ],
)
def test_values_of_the_wrong_type_are_rejected(value):
    with pytest.raises(apiproto.ProtobufError):
        apiproto.encode({"apiVersion": "v1", "kind": "Secret", **value})


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", r"empty data \(<empty>\)"),
        (b"{}", r"expected prefix \[107 56 115 0\] \(7b7d\)"),
        (b"k8s\x00", r"empty body \(6b387300\)"),
        (b"k8s\x00\x0a\x7f\x01", r"unexpected EOF \(6b3873000a7f01\)"),
        (b"k8s\x00\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "varint"),
        (b"k8s\x00\x0b", "illegal wire type"),
        (envelope(b"v1", b"Pod", b"\x0a\x05"), "Pod"),
        (envelope(b"v1", b"Pod", field(1, field(8, b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f"))), "Pod"),
        (b"k8s\x00" + field(1, field(1, b"v1") + field(2, b"\xff")), "UTF-8"),
        (b"k8s\x00" + field(1, field(1, b"v1") + field(2, b"Pod")) + field(3, b"gzip"), "content encoding"),
    ],
)
def test_error_of_malformed_bytes_names_the_reason(data, reason):
    with pytest.raises(ProtobufError, match=reason):
        apiproto.decode(data)


@pytest.mark.parametrize(
    ("api_version", "kind"), [("v1", "Shoe"), ("apps/v1beta2", "Deployment"), ("v2", "Pod"), ("", "")]
)
def test_kind_without_protobuf_form_is_unsupported(api_version, kind):
    assert not apiproto.supports(api_version, kind)
    with pytest.raises(apiproto.UnsupportedKindError):
        apiproto.encode({"apiVersion": api_version, "kind": kind})
    with pytest.raises(apiproto.UnsupportedKindError):
        apiproto.decode(envelope(api_version.encode(), kind.encode(), b""))


def test_group_names_follow_the_api_domain(monkeypatch):
    monkeypatch.setattr(identity, "current", lambda: identity.Identity(api_domain="example.com"))

    assert apiproto.supports("coordination.example.com/v1", "Lease")
    assert apiproto.supports("rbac.authorization.example.com/v1", "Role")
    assert apiproto.supports("policy/v1", "Eviction")
    assert not apiproto.supports("coordination.k8s.io/v1", "Lease")


def test_explicit_api_domain_replaces_that_of_the_process():
    lease = {"apiVersion": "coordination.example.com/v1", "kind": "Lease", "metadata": {"name": "a"}}

    assert apiproto.decode(apiproto.encode(lease, "example.com"), "example.com") == lease
    assert apiproto.descriptor(lease["apiVersion"], "Lease", "example.com") is not None
    with pytest.raises(apiproto.UnsupportedKindError):
        apiproto.encode(lease)


def test_delete_options_are_supported_in_any_group_version():
    options = {
        "apiVersion": "policy/v1",
        "kind": "DeleteOptions",
        "gracePeriodSeconds": 0,
        "preconditions": {"uid": "u"},
    }

    assert apiproto.decode(apiproto.encode(options)) == options


def test_importing_the_package_loads_no_definitions():
    script = (
        "import sys, nodeagent.base.apiproto as a; a.supports('v1', 'Pod');"
        "sys.exit(any(m.startswith('google') or m.endswith('_pb2') for m in sys.modules))"
    )

    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


# --- watch streams --------------------------------------------------------------------------------------------


def test_watch_frame_has_length_type_and_envelope():
    frame = apiproto.encode_watch_frame("ADDED", b"k8s\x00")

    assert frame == b"\x00\x00\x00\x0f" + field(1, b"ADDED") + field(2, field(1, b"k8s\x00"))


@given(cuts=st.lists(st.integers(0, 400), max_size=6))
def test_watch_events_are_complete_however_the_stream_is_split(cuts):
    lease = apiproto.encode(LEASE)
    stream = apiproto.encode_watch_frame("ADDED", lease) + apiproto.encode_watch_frame("DELETED", lease)
    bounds = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    decoder = apiproto.WatchFrameDecoder()

    events = [event for a, b in itertools.pairwise(bounds) for event in decoder.feed(stream[a:b])]

    assert events == [("ADDED", LEASE), ("DELETED", LEASE)]


def test_frame_over_the_limit_is_rejected():
    decoder = apiproto.WatchFrameDecoder(max_frame_bytes=100)

    with pytest.raises(ProtobufError, match="over the limit of 100"):
        decoder.feed(b"\x00\x00\x00\x65")


# --- every kind -----------------------------------------------------------------------------------------------

ALL_KINDS = sorted((file, kind) for file, kinds in registry.KINDS.items() for kind in kinds)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
SPECIAL = {
    "Time": st.integers(1, 4_000_000_000).map(gotime.render),
    "MicroTime": st.integers(1, 4_000_000_000).map(lambda s: gotime.render(s, 12)),
    "Quantity": st.sampled_from(["1", "500m", "3Gi"]),
    "IntOrString": st.one_of(st.integers(0, 65535), TEXT),
    "FieldsV1": st.dictionaries(TEXT, st.just({})),
    "RawExtension": st.dictionaries(TEXT, st.integers()),
    "ExtraValue": st.lists(TEXT, max_size=2),
}
INTEGERS = {
    FieldDescriptor.TYPE_INT32: st.integers(1, 2**31 - 1),
    FieldDescriptor.TYPE_INT64: st.integers(1, 2**63 - 1),
}


@cache
def objects(message: Descriptor, depth: int) -> st.SearchStrategy:
    """Strategy for the JSON objects of *message*, without empty fields."""
    if message.name in SPECIAL:
        return SPECIAL[message.name]
    inline = message.fields_by_name.get("inline")
    members = {f.name: values(f, depth) for f in message.fields if f.name != "inline" and (depth > 0 or is_plain(f))}
    own = st.fixed_dictionaries({}, optional=members)
    if inline is None:
        return own
    return st.tuples(objects(inline.message_type, depth - 1), own).map(lambda both: both[0] | both[1])


def is_plain(f: FieldDescriptor) -> bool:
    return f.message_type is None or f.message_type.name in SPECIAL


def values(f: FieldDescriptor, depth: int) -> st.SearchStrategy:
    if f.message_type is not None and f.message_type.GetOptions().map_entry:
        return st.dictionaries(TEXT, values(f.message_type.fields_by_name["value"], depth - 1), min_size=1, max_size=2)
    if f.message_type is not None:
        one = objects(f.message_type, depth - 1)
    elif f.type in INTEGERS:
        one = INTEGERS[f.type]
    elif f.type == FieldDescriptor.TYPE_BOOL:
        one = st.just(True)
    elif f.type == FieldDescriptor.TYPE_BYTES:
        one = st.binary(min_size=1, max_size=4).map(special.read_bytes)
    else:
        one = TEXT
    return st.lists(one, min_size=1, max_size=2) if f.is_repeated else one


@pytest.mark.parametrize(("file", "kind"), ALL_KINDS)
@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_every_field_of_every_kind_survives(file, kind, data):
    module = importlib.import_module(f"nodeagent.base.apiproto._proto.{file}_pb2")
    group, version = file.split("_")
    qualified = {
        "apiserverinternal": "internal.apiserver",
        "flowcontrol": "flowcontrol.apiserver",
        "rbac": "rbac.authorization",
    }.get(group, group)
    prefixes = {"core": "", **{plain: f"{plain}/" for plain in ("apps", "autoscaling", "batch", "policy")}}
    prefix = prefixes.get(group, f"{qualified}.k8s.io/")
    obj = {"apiVersion": prefix + version, "kind": kind, **data.draw(objects(getattr(module, kind).DESCRIPTOR, 3))}
    if kind.endswith("List"):
        obj.setdefault("items", [])

    assert apiproto.decode(apiproto.encode(obj)) == obj


@given(raw=st.binary(max_size=200))
def test_arbitrary_bytes_are_decoded_or_rejected(raw):
    try:
        apiproto.decode(envelope(b"v1", b"Pod", raw[:100]))
        apiproto.decode(b"k8s\x00" + raw)
    except apiproto.ProtobufError:
        pass


def test_object_that_the_library_cannot_serialize_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    class Message:
        def SerializeToString(self, *, deterministic: bool) -> bytes:
            raise EncodeError("Failed to serialize proto")

    monkeypatch.setattr(codec, "_codec", lambda _: SimpleNamespace(message=Message, write=lambda message, obj: None))

    with pytest.raises(ProtobufError, match="ConfigMap: Failed to serialize proto"):
        apiproto.encode({"apiVersion": "v1", "kind": "ConfigMap"})
