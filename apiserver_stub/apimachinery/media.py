"""Media types: content negotiation, and encoding and decoding of bodies."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import ApiError, bad_request, unsupported_media_type
from nodeagent.base import apiproto, yamlsafe
from nodeagent.base.identity import Identity
from nodeagent.base.structs import Struct
from nodeagent.base.text_cache import text_cache

JSON = "application/json"
YAML = "application/yaml"
APPLY_PATCH = "application/apply-patch+yaml"


class Format(Struct, frozen=True):
    """Negotiated response format: encoding, and requested shape (``Table``, ``PartialObjectMetadata``…), if any."""

    encoding: str = JSON
    """Media type."""
    shape: str = ""
    shape_version: str = ""
    """API version of the shape, such as ``meta.k8s.io/v1``."""
    pretty: bool = False
    error_encoding: str = ""
    """Encoding of errors, which have no shape, if it is another one."""

    @property
    def is_protobuf(self) -> bool:
        return self.encoding not in (JSON, YAML)

    @property
    def plain_json(self) -> bool:
        return self.encoding == JSON and not self.shape and not self.pretty


PLAIN = Format()
PRETTY = Format(pretty=True)


def clauses(accept: str) -> list[tuple[str, dict[str, str]]]:
    """Return the media types of *accept* with their parameters, in order of preference."""
    result = []
    for clause in accept.split(","):
        media, *parameters = (part.strip() for part in clause.split(";"))
        values = dict(parameter.partition("=")[::2] for parameter in parameters)
        try:
            quality = float(values.pop("q", "1"))
        except ValueError:
            quality = 0.0
        result.append((quality, media, values))
    result.sort(key=lambda clause: -clause[0])
    return [(media, values) for _, media, values in result]


@text_cache(256)
def negotiate(
    accept: str, identity: Identity, *, watch: bool, protobuf: bool, tables: bool = True, streams: bool = True
) -> Format:
    """Return the format that *accept* requests.

    :param streams: watches have the path and method of the request, as those of lists.
    :param protobuf: the kind has a protobuf encoding.
    :param tables: the resource has a table representation.
    :raises ApiError: 406, no supported format matches.
    """
    if not accept:
        return PLAIN
    types = object_types(identity)
    for media, values in clauses(accept):
        encoding = _encoding(media)
        if encoding not in types or (watch and encoding == YAML):
            continue
        shape = values.get("as", "")
        if shape and (
            shape not in ("Table", "PartialObjectMetadata", "PartialObjectMetadataList")
            or (shape == "Table" and not tables)
            or values.get("g") != identity.group("meta")
            or values.get("v") not in ("v1", "v1beta1")
        ):
            continue
        if encoding == identity.protobuf_media_type and (shape == "Table" or not (shape or protobuf)):
            continue
        result = _format(encoding, values, shape)
        return replace(result, error_encoding=of_error(accept, identity).encoding) if shape else result
    stream_types = tuple(f"{name};stream=watch" for name in (JSON, identity.protobuf_media_type))
    if any(_encoding(media) in types for media, _ in clauses(accept)):
        raise _not_accepted(stream_types if watch else types)
    raise _not_available(types + stream_types if streams else types)


def negotiate_document(accept: str, identity: Identity, *, routed: bool) -> Format:
    """Return the format of a document that has no other shape, such as discovery.

    :param routed: upstream's router negotiates the type: it does not support ``application/*``, and its 406 differs.
    :raises ApiError: 406, no supported format matches.
    """
    if not accept:
        return PLAIN
    types = object_types(identity)
    for media, values in clauses(accept):
        encoding = JSON if media == "application/*" and not routed else _encoding(media)
        if encoding in types and "as" not in values:
            return _format(encoding, values)
    if routed and not any(_encoding(media) in types for media, _ in clauses(accept)):
        raise _not_available(types)
    raise _not_accepted(types)


def require_json(accept: str) -> None:
    """Require that the client accepts JSON, for documents without another representation.

    :raises ApiError: 406, the client does not accept JSON.
    """
    if accept and not any(_encoding(media) == JSON for media, _ in clauses(accept)):
        raise _not_available((JSON,))


def of_error(accept: str, identity: Identity) -> Format:
    """Return the format of an error: the first media type of *accept* without another shape, by default JSON."""
    types = object_types(identity)
    plain = (media for media, values in clauses(accept) if media in types and "as" not in values)
    return Format(next(plain, JSON))


def _encoding(media: str) -> str:
    return JSON if media == "*/*" else media


def _format(encoding: str, values: dict[str, str], shape: str = "") -> Format:
    shape_version = f"{values.get('g')}/{values.get('v')}" if shape else ""
    return Format(encoding, shape, shape_version, values.get("pretty", "") not in ("", "0", "false"))


def object_types(identity: Identity) -> tuple[str, ...]:
    """Return the media types of objects."""
    return JSON, YAML, identity.protobuf_media_type


def read_body(
    content_type: str, body: bytes, what: str, identity: Identity, repeats: list[yamlsafe.Repeat] | None = None
) -> Object:
    """Decode a request body into an object; *what* is the expected kind in messages.

    :param repeats: receives the duplicate keys of YAML; without it, duplicate keys are an error.
    :raises ApiError: 400, the body is not valid for its content type; 415, the content type is not supported.
    """
    media = content_type.partition(";")[0].strip().lower()
    if media in ("", JSON):
        return read_json(body, what)
    if media == YAML:
        return read_yaml(body, what, repeats)
    types = object_types(identity)
    if media in types:
        return read_protobuf(body, what, identity.api_domain)
    raise unsupported_media_type(
        "the body of the request was in an unknown format - accepted media types include: " + ", ".join(types)
    )


def read_json(body: bytes, what: str) -> Object:
    try:
        obj = objects.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        problem = str(error)
        if not body.strip() or "truncated" in problem:
            problem = "unexpected end of JSON input"
        raise _unrecognized(what, f"json parse error: {problem}", body) from error
    if obj is None:
        return {}
    if not isinstance(obj, dict):
        raise _unrecognized(what, "json parse error: json: cannot unmarshal into Go value of type struct", body)
    return obj


def read_yaml(body: bytes, what: str, repeats: list[yamlsafe.Repeat] | None = None) -> Object:
    """Decode the first document of *body*; further ones are ignored.

    :raises ApiError: 400, it is not an object.
    """
    try:
        obj = yamlsafe.load_first(body, repeats=repeats)
    except yamlsafe.YamlError as error:
        raise _unrecognized(what, f"yaml parse error: {error}", body) from error
    if obj is None:
        return {}
    if not isinstance(obj, dict):
        raise _unrecognized(what, "yaml parse error: not a mapping", body)
    return obj


def read_protobuf(body: bytes, what: str, api_domain: str) -> Object:
    try:
        return apiproto.decode(body, api_domain)
    except apiproto.ProtobufError as error:
        raise bad_request(str(error) or f"the object provided is unrecognized (must be of type {what})") from error


def encode(format_: Format, obj: Object, api_domain: str) -> tuple[str, bytes]:
    """Return the content type and the bytes of *obj* in *format_*, or in JSON if it has no protobuf encoding.

    :param api_domain: domain of API groups.
    """
    if format_.encoding == YAML:
        return YAML, _yaml(obj)
    if format_.is_protobuf:
        with contextlib.suppress(apiproto.ProtobufError):
            return format_.encoding, apiproto.encode(obj, api_domain)
    data = objects.encode(obj)
    return JSON, (msgspec.json.format(data, indent=2) if format_.pretty else data) + b"\n"


def _unrecognized(what: str, problem: str, body: bytes) -> ApiError:
    shown = body[:64].decode(errors="replace") or "<empty>"
    return bad_request(
        f"the object provided is unrecognized (must be of type {what}): couldn't get version/kind; {problem} ({shown})"
    )


def _not_accepted(types: Sequence[str]) -> ApiError:
    return _not_acceptable(f"only the following media types are accepted: {', '.join(types)}")


def _not_available(types: Sequence[str]) -> ApiError:
    return _not_acceptable(f"406: Not Acceptable\n\nAvailable representations: {', '.join(types)}")


def _not_acceptable(message: str) -> ApiError:
    return ApiError(406, "NotAcceptable", message, {})


def _yaml(obj: Object) -> bytes:
    import yaml  # Deferred: few clients request YAML.

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    return yaml.dump(obj, Dumper=Dumper, default_flow_style=False, allow_unicode=True).encode()
