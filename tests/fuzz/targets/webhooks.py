"""Responses of webhooks and extension API servers, and of endpoints that stream commands."""

from __future__ import annotations

import asyncio
from typing import Any

from apiserver_stub.admission.webhooks import review
from apiserver_stub.aggregation import documents
from apiserver_stub.authn import webhook as authentication
from apiserver_stub.authz import webhook as authorization
from apiserver_stub.webhook import WebhookError
from nodeagent.base import spdy_streams
from tests.fuzz.connections import drive
from tests.fuzz.fields import changed
from tests.fuzz.target import target

ADMISSION = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "response": {
        "uid": "uid",
        "allowed": True,
        "status": {"code": 403, "message": "m", "reason": "r"},
        "patch": "W3sib3AiOiJhZGQiLCJwYXRoIjoiL2EiLCJ2YWx1ZSI6MX1d",
        "patchType": "JSONPatch",
        "auditAnnotations": {"a": "b"},
        "warnings": ["w"],
    },
}
TOKEN = {
    "apiVersion": "authentication.k8s.io/v1",
    "kind": "TokenReview",
    "status": {
        "authenticated": True,
        "error": "e",
        "audiences": ["a"],
        "user": {"username": "u", "uid": "i", "groups": ["g"], "extra": {"k": ["v"]}},
    },
}
ACCESS = {
    "apiVersion": "authorization.k8s.io/v1",
    "kind": "SubjectAccessReview",
    "status": {"allowed": True, "denied": False, "reason": "r", "evaluationError": "e"},
}
RESOURCES = {
    "kind": "APIResourceList",
    "resources": [
        {"name": "widgets", "singularName": "widget", "namespaced": True, "kind": "Widget", "verbs": ["get"]},
        {"name": "widgets/status", "namespaced": True, "kind": "Widget", "verbs": ["get"], "shortNames": ["w"]},
    ],
    "paths": {"apis/example.com/v1": {"serverRelativeURL": "/openapi/v3/apis/example.com/v1?hash=a"}},
}


@target(WebhookError)
def webhook_review(data: bytes) -> None:
    """A review is a decision, or an invalid response."""
    kind, version, read = REVIEWS[data[0] % len(REVIEWS)] if data else REVIEWS[0]
    body = changed([kind], b"\x00" + data[1:])
    if isinstance(body, dict):
        read(body, version)


REVIEWS: Any = (
    (
        ADMISSION,
        "admission.k8s.io/v1",
        lambda body, version: review.read_response(body, version, "uid", may_patch=True),
    ),
    (TOKEN, "authentication.k8s.io/v1", lambda body, version: authentication._read(body, version, ("a",), ("a",))),
    (
        ACCESS,
        "authorization.k8s.io/v1",
        lambda body, version: authorization._result(authorization._status(body, version)),
    ),
)


@target(ValueError)
def extension_documents(data: bytes) -> None:
    """Resources of an extension server are listed, or its document is invalid."""
    document = changed([RESOURCES], b"\x00" + data)
    documents.openapi_url(document, "/apis/example.com/v1")
    for resource in documents.resources_of(document):
        assert resource["resource"]


@target(
    spdy_streams.UpgradeFailed,
    tokens=(
        b"HTTP/1.1 101 Switching Protocols\r\n",
        b"Upgrade: SPDY/3.1\r\n",
        b"X-Stream-Protocol-Version: v4",
        b"\r\n\r\n",
    ),
)
def stream_upgrade(data: bytes) -> None:
    """The status for the client is one of HTTP."""

    async def read() -> None:
        reader = asyncio.StreamReader()
        reader.feed_data(data)
        reader.feed_eof()
        try:
            await spdy_streams._accepted(reader, "peer")
        except spdy_streams.UpgradeFailed as error:
            assert 100 <= error.status < 600
            raise

    drive(read())
