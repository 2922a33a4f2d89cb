"""OpenAPI documents of the served resources: version 3 by group version, version 2 as a whole."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from apiserver_stub.apimachinery import media, objects
from apiserver_stub.transport.http_date import format_http_date
from apiserver_stub.verbs.responses import Reply
from nodeagent.base.release import OLDEST, Release

if TYPE_CHECKING:
    from apiserver_stub.aggregation.remotes import Remotes
    from apiserver_stub.apimachinery.request import Request
    from apiserver_stub.kinds.registry import Registry
    from nodeagent.base.identity import Identity

V2, V3 = "/openapi/v2", "/openapi/v3"
_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_V2_TYPES = {
    media.JSON: media.JSON,
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf": _PROTOBUF,
    _PROTOBUF: _PROTOBUF,
    "application/*": media.JSON,
    "*/*": media.JSON,
}
"""Requested media type → media type of the response."""
_PROTOBUF_V3 = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"
_V3_TYPES = {
    media.JSON: media.JSON,
    "application/com.github.proto-openapi.spec.v3@v1.0+protobuf": _PROTOBUF_V3,
    _PROTOBUF_V3: _PROTOBUF_V3,
    "application/*": media.JSON,
    "*/*": media.JSON,
}
_KEPT_SECONDS = 365 * 24 * 3600
"""Cache time of documents requested by their hash, which never change."""


class Document(NamedTuple):
    """Document with its hash."""

    body: bytes
    hash: str


class OpenApi:
    """OpenAPI documents of the served resources, built on the first request."""

    read_only = False

    def __init__(
        self,
        registry: Registry,
        remotes: Remotes,
        identity: Identity,
        release: Release = OLDEST,
        *,
        enums: bool = True,
    ) -> None:
        """Create the documents of *release*; with *enums*, schemas contain the values of enumerated fields.

        spec: gate.OpenAPIEnums
        """
        self._release, self._enums = release, enums
        self._registry, self._remotes, self._identity = registry, remotes, identity
        self._documents: dict[str, Document] | None = None
        self._protobuf: dict[str, bytes] = {}
        """Documents in protobuf, by the names of the documents."""
        self._drops = 0
        self._building = asyncio.Lock()
        """Held while documents are built or encoded, so that concurrent requests do it once."""
        registry.listen(self._drop)

    def _drop(self) -> None:
        """Drop the documents, which are built again on the next request."""
        self._documents = None
        self._protobuf = {}
        self._drops += 1

    async def respond(self, request: Request) -> Reply | None:
        """Return the document at an OpenAPI path, ``None`` for other paths."""
        path = request.info.path
        if path not in (V2, V3) and not path.startswith(V3 + "/"):
            return None
        known = self._documents or await self._build()
        if path == V3:
            index = {
                name: {"serverRelativeURL": f"{V3}/{name}?hash={found.hash}"} for name, found in known.items() if name
            }
            index |= {
                f"apis/{group}/{version}": {"serverRelativeURL": found.openapi_url}
                for (group, version), found in self._remotes.discovered.items()
                if found.openapi_url
            }
            return Reply(200, body=objects.encode({"paths": index}), content_type="text/plain; charset=utf-8")
        content_type = _type_of(request.headers.get("Accept", ""), _V2_TYPES if path == V2 else _V3_TYPES)
        if not content_type:
            return Reply(406, body=b"")
        name = "" if path == V2 else path.removeprefix(V3 + "/")
        document = known.get(name)
        if document is None:
            return None
        tag = f'"{document.hash}"'
        headers = {"Etag": tag, "Vary": "Accept"}
        if requested := request.query.get("hash"):
            if requested != document.hash:
                location = f"{path}?hash={document.hash}"
                return Reply(301, body=b"", headers={"Location": location})
            headers["Cache-Control"] = "public, immutable"
            headers["Expires"] = format_http_date(time.time() + _KEPT_SECONDS)
        if request.headers.get("If-None-Match") == tag:
            return Reply(304, body=b"", content_type=content_type, headers=headers)
        body = document.body if content_type == media.JSON else await self._in_protobuf(name, document.body)
        return Reply(200, body=body, content_type=content_type, headers=headers)

    async def _build(self) -> dict[str, Document]:
        """Build the documents; they are kept unless the resources changed in the meantime."""
        async with self._building:
            if self._documents is not None:
                return self._documents
            drops = self._drops
            found = await asyncio.to_thread(self._built)
            if drops == self._drops:
                self._documents = found
            return found

    def _built(self) -> dict[str, Document]:
        built = _build(self._registry, self._identity, self._release, enums=self._enums)
        return {name: Document(body, hashlib.sha512(body).hexdigest().upper()) for name, body in built.items()}

    async def _in_protobuf(self, name: str, document: bytes) -> bytes:
        """Return the document *name* in protobuf."""
        async with self._building:
            found = self._protobuf.get(name)
            if found is None:
                from apiserver_stub.endpoints.openapi import protobuf, protobuf_v3  # Few clients request it.

                encode, drops = protobuf_v3.encode if name else protobuf.encode, self._drops
                found = await asyncio.to_thread(lambda: encode(objects.decode(document)))
                if drops == self._drops:
                    self._protobuf[name] = found
            return found


def _type_of(accept: str, types: Mapping[str, str]) -> str:
    """Return the media type of the response for the header *accept*, empty if none matches."""
    kinds = (kind for kind, _ in media.clauses(accept or "*/*"))
    return next((types[kind] for kind in kinds if kind in types), "")


def _build(
    registry: Registry, identity: Identity, release: Release = OLDEST, *, enums: bool = True
) -> dict[str, bytes]:
    """Return every document: version 3 by path, version 2 under the empty name."""
    from apiserver_stub.endpoints.openapi.documents import build_documents  # Its tables are large and rarely needed.

    return build_documents(registry, identity, release, enums=enums)
