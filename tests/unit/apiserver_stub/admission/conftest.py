"""Fixtures: admission attributes as the verbs create them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from apiserver_stub.apimachinery.media import PLAIN
from apiserver_stub.apimachinery.request import Query, Request, RequestInfo, User
from apiserver_stub.kinds.registry import Resource
from apiserver_stub.verbs.admission import AdmissionRequest
from nodeagent.base.identity import Identity

PODS = Resource("", "v1", "Pod", "pods")

MakeCall = Callable[..., AdmissionRequest]


def make_call(
    new: Any = None,
    old: Any = None,
    *,
    operation: Any = "CREATE",
    resource: Resource = PODS,
    verb: str = "create",
    subresource: str = "",
    user: User | str = "u",
    dry_run: bool = False,
    namespace: str = "default",
) -> AdmissionRequest:
    name = ((new or old or {}).get("metadata") or {}).get("name", "")
    info = RequestInfo(verb, "", resource.group, resource.version, resource.plural, subresource, namespace, name)
    user = user if isinstance(user, User) else User(user)
    request = Request("POST", info, Query(""), {}, b"", user, PLAIN, Identity())
    return AdmissionRequest(operation, request, resource, new, old, name, dry_run=dry_run)


@pytest.fixture
def call() -> MakeCall:
    return make_call
