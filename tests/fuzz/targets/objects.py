"""Bodies of write requests: objects of all kinds are decoded, completed and validated."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

import msgspec
import yaml

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.media import PLAIN
from apiserver_stub.apimachinery.request import Query, Request, User, parse_path
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.kinds.registry import Resource
from apiserver_stub.options import parse
from apiserver_stub.server.kinds import build_registry
from apiserver_stub.validation.metadata import validate_metadata
from apiserver_stub.verbs.body import read_object
from apiserver_stub.verbs.preparation import clean_metadata
from nodeagent.base import apiproto
from nodeagent.base.identity import Identity
from tests.fuzz.fields import changed
from tests.fuzz.target import ROOT, target

IDENTITY = Identity()
REGISTRY = build_registry(parse(["--runtime-config=api/all=true"]))
POD = REGISTRY.find("", "v1", "pods")
INFO = parse_path("POST", "/api/v1/namespaces/default/pods", Query(""))
FIELDS = (
    *(b'"metadata":{', b'"spec":{', b'"status":{', b'"name":"a"', b'"labels":{', b'"selector":{', b'"matchLabels":{'),
    *(b'"matchExpressions":[{', b'"key":"', b'"operator":"In"', b'"values":["', b'"containers":[{', b'"ports":[{'),
    *(b'"resources":{"requests":{"cpu":"1"}}', b'"volumes":[{', b'"env":[{', b'"tolerations":[{', b'"template":{'),
    *(b"null", b"[]", b"{}", b'""', b"-1", b"1e400", b"0.5", b"18446744073709551616", b"9" * 700, b"\\ud83d\\ude00"),
    *(b'"2024-01-01T00:00:00Z"', b'"1Gi"', b'"10.0.0.0/8"', b'"::1"', b'"a/b"', b'"*"', b"true", b'"apiVersion":"'),
)


@cache
def _examples() -> list[Any]:
    """Return objects of all kinds."""
    files = sorted((ROOT / "tests/differential/objects").glob("*.yaml"))
    documents = (document for file in files for document in yaml.safe_load_all(file.read_text()))
    return [document for document in documents if isinstance(document, dict)]


@target(ApiError, RecursionError)
def object_fields(data: bytes) -> None:
    """Each body is stored or rejected, whatever the values of its fields."""
    object_write(msgspec.json.encode(changed(_examples(), data)))


@target(ApiError, RecursionError, tokens=FIELDS)
def object_write(data: bytes) -> None:
    """Each body is stored or rejected; what is stored can be encoded, displayed and written again."""
    resource = _resource(data)
    request = Request(
        "POST", INFO, Query(""), {"Content-Type": "application/json"}, data, User("user"), PLAIN, IDENTITY
    )
    obj = read_object(request, resource.kind, resource.api_version, resource.schema)
    if not _is_valid(request, resource, obj):
        return
    objects.encode_for_store(obj)
    for column in resource.columns:
        column.cell(obj)
    if apiproto.supports(resource.api_version, resource.kind):
        apiproto.decode(apiproto.encode(obj))
    for subresource in ("", *(each.name for each in resource.subresources)):
        new = copy.deepcopy(obj)
        resource.strategy.prepare_update(new, obj, subresource)
        resource.strategy.validate_update(new, obj, subresource)


def _resource(data: bytes) -> Resource:
    """Return the resource of the kind in *data*, pods for an unknown one."""
    assert POD is not None
    try:
        body: Any = msgspec.json.decode(data)
    except (ValueError, RecursionError):
        return POD
    if not isinstance(body, dict):
        return POD
    group, _, version = str(body.get("apiVersion")).rpartition("/")
    return REGISTRY.find_kind(group, version, str(body.get("kind"))) or POD


def _is_valid(request: Request, resource: Resource, obj: Any) -> bool:
    """Complete *obj* as for a creation, and return whether it is valid."""
    strategy, schema = resource.strategy, resource.schema_in(IDENTITY.api_domain)
    metadata = obj["metadata"]
    clean_metadata(request, metadata)
    metadata |= {"uid": "uid", "creationTimestamp": objects.now()}
    if resource.namespaced:
        metadata["namespace"] = "default"
    strategy.default(obj)
    if schema is not None:
        schema.settle(obj)
        schema.omit_null_times(obj)
    strategy.warnings_as_sent(obj)
    strategy.prepare_create(obj)
    causes = strategy.validate(obj)
    causes += validate_metadata(obj["metadata"], resource.name_rule(obj), resource.metadata_rules)
    if causes:
        return False
    strategy.warnings(obj, None)
    strategy.canonicalize(obj, None)
    return True
