"""Audit events and their encodings: JSON of ``audit.k8s.io/v1`` and the legacy text line."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import msgspec

from apiserver_stub.apimachinery.request import User
from nodeagent.base.names import is_ip

_MAX_USER_AGENT = 1024
_encode = msgspec.json.Encoder(order="deterministic").encode


class UserInfo(msgspec.Struct, omit_defaults=True):
    """The authenticated user; all fields are empty if authentication failed."""

    username: str = ""
    uid: str = ""
    groups: Sequence[str] = ()
    extra: Mapping[str, Sequence[str]] = msgspec.field(default_factory=dict)


class ObjectReference(msgspec.Struct, omit_defaults=True, rename="camel"):
    """The object of the request."""

    resource: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    api_group: str = ""
    api_version: str = ""
    resource_version: str = ""
    subresource: str = ""


class ResponseStatus(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The result of the request, with the texts of the returned ``Status``."""

    metadata: msgspec.Raw = msgspec.field(default_factory=lambda: msgspec.Raw(b"{}"))
    status: str = ""
    message: str = ""
    reason: str = ""
    details: Any = None
    code: int


class Event(msgspec.Struct, omit_defaults=True, kw_only=True, rename="camel"):
    """A request at one stage; the order of the fields is that of the encoded event."""

    kind: str
    api_version: str
    level: str
    audit_id: str = msgspec.field(name="auditID")
    stage: str
    request_uri: str = msgspec.field(name="requestURI")
    verb: str
    user: UserInfo
    impersonated_user: UserInfo | None = None
    source_ips: Sequence[str] = msgspec.field(default=(), name="sourceIPs")
    user_agent: str = ""
    object_ref: ObjectReference | None = None
    response_status: ResponseStatus | None = None
    request_object: Any = None
    response_object: Any = None
    request_received_timestamp: str
    stage_timestamp: str
    annotations: dict[str, str] = msgspec.field(default_factory=dict)


def encode(event: Event) -> bytes:
    """Return *event* as a line of JSON."""
    return _encode(event) + b"\n"


def truncated(event: Event) -> Event:
    """Return *event* without request and response object, annotated as truncated."""
    annotations = {**event.annotations, f"{event.api_version.partition('/')[0]}/truncated": "true"}
    return msgspec.structs.replace(event, request_object=None, response_object=None, annotations=annotations)


def user_info(user: User) -> UserInfo:
    """Return the ``UserInfo`` of *user*."""
    return UserInfo(user.name, user.uid, user.groups, user.extra)


def user_agent(headers: Mapping[str, str]) -> str:
    """Return the ``User-Agent`` header, truncated to 1024 characters."""
    text = headers.get("User-Agent", "")
    return text if len(text) <= _MAX_USER_AGENT else text[:_MAX_USER_AGENT] + "...TRUNCATED"


def source_ips(headers: Mapping[str, str], remote: str | None) -> list[str]:
    """Return the source addresses: those that proxies report in headers, then the peer address of the connection."""
    addresses = []
    if "X-Forwarded-For" in headers:
        addresses = [part.strip() for part in headers["X-Forwarded-For"].split(",") if is_ip(part.strip())]
    if "X-Real-Ip" in headers and is_ip(address := headers["X-Real-Ip"].strip()) and address not in addresses[-1:]:
        addresses.append(address)
    if remote and remote not in addresses[-1:]:
        addresses.append(remote)
    return addresses


def timestamp(nanoseconds: int) -> str:
    """Return *nanoseconds* since the epoch as an RFC 3339 timestamp with microseconds."""
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    return f"{_second(seconds)}.{rest // 1000:06}Z"


@lru_cache(maxsize=4)
def _second(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}"


def legacy_line(event: Event) -> bytes:
    """Return *event* as a line of text (spec: opt.audit-log-format)."""
    user, other = event.user, event.impersonated_user
    received = re.sub(r"\.?0+Z$", "Z", event.request_received_timestamp)
    fields = {
        "id": event.audit_id,
        "stage": event.stage,
        "ip": event.source_ips[0] if event.source_ips else "<unknown>",
        "method": event.verb,
        "user": user.username or "<none>",
        "groups": _quoted_list(user.groups) if user.username and user.groups else "<none>",
        "as": other.username if other is not None else "<self>",
        "asgroups": _quoted_list(other.groups) if other is not None and other.groups else "<lookup>",
        "user-agent": event.user_agent,
        "namespace": (event.object_ref.namespace if event.object_ref is not None else "") or "<none>",
        "uri": event.request_uri,
        "response": str(event.response_status.code) if event.response_status is not None else "<deferred>",
    }
    return f"{received} AUDIT: {' '.join(f'{name}={_quoted(text)}' for name, text in fields.items())}\n".encode()


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _quoted_list(texts: Sequence[str]) -> str:
    return ",".join(map(_quoted, texts))
