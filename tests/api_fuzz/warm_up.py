"""Requests that use each kind and each format once: they load what a server loads on demand. No I/O."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from nodeagent.base import apiproto
from tests.api_fuzz.catalog import Catalog, Target
from tests.api_fuzz.patches import PATCH_TYPES
from tests.api_fuzz.queries import WARM_UP
from tests.api_fuzz.requests import NAMESPACES, FuzzRequest

_JSON, _PROTOBUF = "application/json", "application/vnd.kubernetes.protobuf"


def warm_up(catalog: Catalog) -> Iterator[FuzzRequest]:
    """Return the requests, all without effect."""
    for path in catalog.paths:
        for accepted in WARM_UP:
            yield FuzzRequest("GET", path, [("Accept", accepted)])
    for target in catalog.targets:
        yield from _requests(target)


def _requests(target: Target) -> Iterator[FuzzRequest]:
    example = {"apiVersion": target.api_version, "kind": target.kind, **target.examples[0]}
    name = str((example.get("metadata") or {}).get("name") or "full")
    one, all_ = target.path(NAMESPACES[0], name), target.path(NAMESPACES[0], "")
    for accepted in WARM_UP:
        sent = ("Accept", accepted)
        if "get" in target.verbs:
            yield FuzzRequest("GET", one, [sent])
        if "list" in target.verbs:
            yield FuzzRequest("GET", all_, [sent])
        if "watch" in target.verbs and ";" not in accepted:
            yield FuzzRequest("GET", f"{all_}?watch=1&timeoutSeconds=1", [sent])
    for method, verb in (("POST", "create"), ("PUT", "update")):
        if verb in target.verbs:
            path = all_ if verb == "create" and not target.subresource else one
            for content_type, body in _bodies(example):
                yield FuzzRequest(method, f"{path}?dryRun=All", [("Content-Type", content_type)], body)
    if "patch" in target.verbs:
        for content_type in PATCH_TYPES:
            patch: Any = [] if content_type == "application/json-patch+json" else example
            path, headers = f"{one}?dryRun=All&fieldManager=warm-up", [("Content-Type", content_type)]
            yield FuzzRequest("PATCH", path, headers, json.dumps(patch).encode())
    if "delete" in target.verbs:
        yield FuzzRequest("DELETE", f"{one}?dryRun=All")


def _bodies(example: dict[str, Any]) -> Iterator[tuple[str, bytes]]:
    yield _JSON, json.dumps(example).encode()
    try:
        yield _PROTOBUF, apiproto.encode(example)
    except (apiproto.ProtobufError, apiproto.UnsupportedKindError):
        return
