"""Responses of verbs, and their rendering in the negotiated format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import field

from apiserver_stub.apimachinery import media, objects
from apiserver_stub.apimachinery.media import Format
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.kinds import tables
from apiserver_stub.transport.rendered import Rendered
from nodeagent.base.structs import Struct

if TYPE_CHECKING:
    from apiserver_stub.apimachinery.request import Request
    from apiserver_stub.kinds.registry import Resource
    from apiserver_stub.storage import Record


class Page(Struct, frozen=True):
    """Records of one list response, with the metadata of the list."""

    records: list[Record]
    metadata: Object


class Reply(Struct, frozen=True):
    """Reply of a verb, as exactly one of a stored record, an object, a page of records, or bytes."""

    code: int
    record: Record | None = None
    obj: Object | None = None
    page: Page | None = None
    body: bytes = b""
    content_type: str = media.JSON
    headers: Mapping[str, str] = field(default_factory=dict)


def render(reply: Reply, request: Request, resource: Resource | None) -> Rendered:
    """Return *reply* in the negotiated format.

    :raises ApiError: 406, the requested representation, such as a table list, does not suit the reply.
    """
    format_ = request.format
    if reply.page is not None and resource is not None:
        if format_.plain_json:
            return Rendered(reply.code, media.JSON, _join(reply.page, resource), reply.headers)
        content_type, data = media.encode(
            format_, _shape_list(reply.page, request, resource), request.identity.api_domain
        )
        return Rendered(reply.code, content_type, [data], reply.headers)
    if reply.record is not None and resource is not None:
        if format_.plain_json:
            return Rendered(reply.code, media.JSON, [resource.render(reply.record), b"\n"], reply.headers)
        obj = resource.read(reply.record)
    elif reply.obj is not None:
        obj = reply.obj
    else:
        return Rendered(reply.code, reply.content_type, [reply.body], reply.headers)
    if resource is not None and _is_convertible(obj, format_, resource):
        obj = _shape_object(obj, request, resource)
    content_type, data = media.encode(format_, obj, request.identity.api_domain)
    return Rendered(reply.code, content_type, [data], reply.headers)


def _is_convertible(obj: Object, format_: Format, resource: Resource) -> bool:
    """Return whether *obj* is converted to the representation in *format_*; a Status never is."""
    kind = obj.get("kind")
    return kind == resource.kind or (
        format_.shape == "PartialObjectMetadata" and kind != "Status" and "metadata" in obj
    )


def render_error(error: ApiError, format_: Format) -> Rendered:
    """Return *error* as a Status response."""
    content_type, data = media.encode(
        Format(format_.error_encoding or format_.encoding, pretty=format_.pretty),
        error.body(),
        api_domain="",  # The group of a Status has no domain.
    )
    headers = dict(error.headers)
    if seconds := (error.details or {}).get("retryAfterSeconds"):
        headers["Retry-After"] = str(seconds)
    if error.code == 403:
        headers["X-Content-Type-Options"] = "nosniff"
    return Rendered(error.code, content_type, [data], headers)


def _shape_object(obj: Object, request: Request, resource: Resource) -> Object:
    shape, version = request.format.shape, request.format.shape_version
    if shape == "Table":
        mode = tables.include_object(request.query)
        resource_version = obj["metadata"].get("resourceVersion")
        metadata = {"resourceVersion": resource_version} if resource_version else {}
        return tables.table(resource, [obj], metadata, mode, version)
    if shape == "PartialObjectMetadata":
        return tables.partial(obj, version)
    if shape:
        text = f"you requested {shape}, but the requested object is not a list ({_go_type(resource)})"
        raise ApiError(406, "NotAcceptable", text)
    return obj


def _go_type(resource: Resource) -> str:
    """Return the Go type of an object in messages, such as ``*core.Event``; the package is that of the storage."""
    return f"*{resource.storage.partition('/')[0].partition('.')[0]}.{resource.kind}"


def _shape_list(page: Page, request: Request, resource: Resource) -> Object:
    format_ = request.format
    items = [resource.read(record) for record in page.records]
    metadata = page.metadata
    if format_.shape:
        metadata = {name: value for name, value in metadata.items() if name != "shardInfo"}  # As upstream.
    if format_.shape == "Table":
        mode = tables.include_object(request.query)
        return tables.table(resource, items, metadata, mode, format_.shape_version)
    kind, api_version = resource.list_kind, resource.api_version
    if format_.shape == "PartialObjectMetadataList":
        kind, api_version = format_.shape, format_.shape_version
        items = [tables.partial(item, format_.shape_version) for item in items]
    elif format_.shape:
        text = f"you requested {format_.shape}, but the requested object is a list ({_go_type(resource)}List)"
        raise ApiError(406, "NotAcceptable", text)
    elif not resource.typed_items:
        for item in items:
            del item["kind"], item["apiVersion"]
    return {"kind": kind, "apiVersion": api_version, "metadata": metadata, "items": items}


def _join(page: Page, resource: Resource) -> list[bytes]:
    """Return the list as chunks of stored bytes, without the kind and apiVersion that stored objects start with."""
    list_start = objects.encode(
        {"kind": resource.list_kind, "apiVersion": resource.api_version, "metadata": page.metadata}
    )
    chunks = [list_start[:-1] + b',"items":[']
    skip = 1 if resource.typed_items else len(resource.head)
    render_one = resource.render
    records = page.records
    for start in range(0, len(records), 500):
        items = b",{".join([render_one(record)[skip:] for record in records[start : start + 500]])
        chunks.append((b",{" if start else b"{") + items)
    chunks.append(b"]}\n")
    return chunks
