"""Tests of the fields that a request owns in a new object."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.apimachinery.media import PLAIN
from apiserver_stub.apimachinery.request import Query, Request, RequestInfo, User
from apiserver_stub.options import Options
from apiserver_stub.server.kinds import build_registry
from apiserver_stub.verbs.field_manager import track_create
from nodeagent.base.identity import Identity


@pytest.mark.parametrize("first", [[], None])
def test_empty_list_is_owned_and_null_is_not(first: object) -> None:
    info = RequestInfo("create", "/", "discovery.k8s.io", "v1", "endpointslices", namespace="d")
    request = Request("POST", info, Query(""), {}, b"", User("u"), PLAIN, Identity())
    (resource,) = (item for item in build_registry(Options()) if item.plural == "endpointslices")

    owned = {}
    for endpoints in (first, None if first == [] else []):
        obj: dict[str, Any] = {
            "kind": "EndpointSlice",
            "apiVersion": "discovery.k8s.io/v1",
            "metadata": {"name": "a"},
            "addressType": "IPv4",
            "endpoints": endpoints,
            "ports": None,
        }
        track_create(request, resource, obj)
        owned[str(endpoints)] = b"f:endpoints" in bytes(obj["metadata"]["managedFields"][0]["fieldsV1"])

    assert owned == {"[]": True, "None": False}
