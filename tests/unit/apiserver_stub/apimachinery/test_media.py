"""Tests for content negotiation and the decoding of bodies."""

from __future__ import annotations

import pytest

from apiserver_stub.apimachinery import media
from apiserver_stub.apimachinery.media import JSON, YAML, Format
from apiserver_stub.apimachinery.status import ApiError
from nodeagent.base.identity import Identity

PROTOBUF = "application/vnd.kubernetes.protobuf"

TABLE = (
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
)


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", Format()),
        ("*/*", Format()),
        ("application/json, */*", Format()),
        (f"{PROTOBUF},application/json", Format(PROTOBUF)),
        ("application/json;q=0.5,application/yaml", Format(YAML)),
        ("text/html,application/xml;q=0.9,*/*;q=0.8", Format()),
        (TABLE, Format(JSON, "Table", "meta.k8s.io/v1", error_encoding=JSON)),
        (f"{PROTOBUF};as=Table;v=v1;g=meta.k8s.io,{JSON}", Format(JSON)),
        (
            f"{PROTOBUF};as=PartialObjectMetadata;v=v1;g=meta.k8s.io,{JSON}",
            Format(PROTOBUF, "PartialObjectMetadata", "meta.k8s.io/v1", error_encoding=JSON),
        ),
        (
            "application/json;as=PartialObjectMetadataList;v=v1beta1;g=meta.k8s.io",
            Format(JSON, "PartialObjectMetadataList", "meta.k8s.io/v1beta1", error_encoding=JSON),
        ),
        ("application/json;as=Nope;v=v1;g=meta.k8s.io,application/json", Format()),
        ("application/json;pretty=1", Format(pretty=True)),
    ],
)
def test_negotiation(accept: str, expected: Format) -> None:
    assert media.negotiate(accept, Identity(), watch=False, protobuf=True) == expected


def test_table_of_a_resource_without_table_falls_back() -> None:
    accept = f"{JSON};as=Table;v=v1;g=meta.k8s.io,{YAML}"

    assert media.negotiate(accept, Identity(), watch=False, protobuf=True, tables=False) == Format(YAML)
    with pytest.raises(ApiError, match="only the following media types are accepted"):
        media.negotiate(accept.partition(",")[0], Identity(), watch=False, protobuf=True, tables=False)


def test_kinds_without_protobuf_fall_back() -> None:
    assert media.negotiate(f"{PROTOBUF},application/json", Identity(), watch=False, protobuf=False) == Format()


@pytest.mark.parametrize(
    ("accept", "watch", "text"),
    [
        ("text/html", False, "406: Not Acceptable"),
        ("application/*", False, "406: Not Acceptable"),
        ("text/html", True, "406: Not Acceptable"),
        (YAML, True, f"types are accepted: {JSON};stream=watch, {PROTOBUF};stream=watch"),
        (f"{JSON};as=Nope;v=v1;g=meta.k8s.io", False, f"types are accepted: {JSON}, {YAML}, {PROTOBUF}"),
        (f"{PROTOBUF};as=Table;v=v1;g=meta.k8s.io", False, f"types are accepted: {JSON}, {YAML}, {PROTOBUF}"),
    ],
)
def test_unsupported_media_type_is_not_acceptable(accept: str, watch: bool, text: str) -> None:
    with pytest.raises(ApiError) as error:
        media.negotiate(accept, Identity(), watch=watch, protobuf=True)

    assert error.value.code == 406
    assert text in error.value.message


@pytest.mark.parametrize("streams", [False, True])
def test_stream_types_are_listed_where_watches_are_possible(streams: bool) -> None:
    with pytest.raises(ApiError) as error:
        media.negotiate("text/html", Identity(), watch=False, protobuf=True, streams=streams)

    assert error.value.message.endswith(f"{PROTOBUF};stream=watch" if streams else PROTOBUF)
    assert ("stream=watch" in error.value.message) is streams


def test_bodies_are_decoded_by_content_type() -> None:
    assert media.read_body("", b'{"a":1}', "X", Identity()) == {"a": 1}
    assert media.read_body("application/json; charset=utf-8", b'{"a":1}', "X", Identity()) == {"a": 1}
    assert media.read_body(YAML, b"a: 2026-11-21", "X", Identity()) == {"a": "2026-11-21"}


@pytest.mark.parametrize(
    ("content_type", "body", "code", "text"),
    [
        (JSON, b"", 400, "unexpected end of JSON input (<empty>)"),
        (JSON, b"[]", 400, "cannot unmarshal"),
        (JSON, b"\xff", 400, "json parse error"),
        (JSON, b'{"a\xff": 1}', 400, "json parse error"),
        (YAML, b"- a", 400, "not a mapping"),
        (YAML, b"a: !!python/object:os.system {}", 400, "yaml parse error"),
        (PROTOBUF, b"abc", 400, "expected prefix [107 56 115 0]"),
        ("text/json", b"{}", 415, "accepted media types include"),
    ],
)
def test_body_that_mismatches_its_content_type_is_rejected(
    content_type: str, body: bytes, code: int, text: str
) -> None:
    with pytest.raises(ApiError) as error:
        media.read_body(content_type, body, "Pod", Identity())

    assert error.value.code == code
    assert text in error.value.message


def test_response_without_protobuf_form_is_json() -> None:
    content_type, data = media.encode(Format(PROTOBUF), {"kind": "Table", "apiVersion": "meta.k8s.io/v1"}, "k8s.io")

    assert (content_type, data) == (JSON, b'{"kind":"Table","apiVersion":"meta.k8s.io/v1"}\n')


@pytest.mark.parametrize(
    ("format_", "plain", "protobuf"),
    [
        (Format(), True, False),
        (Format(pretty=True), False, False),
        (Format("application/yaml"), False, False),
        (Format("application/vnd.kubernetes.protobuf"), False, True),
        (Format(shape="Table"), False, False),
    ],
)
def test_plain_json_needs_no_conversion(format_: Format, *, plain: bool, protobuf: bool) -> None:
    assert (format_.plain_json, format_.is_protobuf) == (plain, protobuf)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"", "unexpected end of JSON input"),
        (b" \n", "unexpected end of JSON input"),
        (b'{"a":', "unexpected end of JSON input"),
        (b"{a}", "JSON is malformed"),
        (b"[]", "json: cannot unmarshal into Go value of type struct"),
    ],
)
def test_malformed_json_is_described(body: bytes, problem: str) -> None:
    with pytest.raises(ApiError, match=problem) as error:
        media.read_json(body, "Pod")

    assert error.value.code == 400


def test_null_is_an_empty_object() -> None:
    assert media.read_json(b"null", "Pod") == {}
