"""Audit events as they are written: the JSON object of the API and the older line of text."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import msgspec

from apiserver_stub.apimachinery.request import User
from apiserver_stub.audit.policy import API_VERSION
from nodeagent.base import identity
from nodeagent.base.names import is_ip

KIND_HEAD = b'{"kind":"Event","apiVersion":"' + API_VERSION.encode() + b'",'
"""What every event starts with, and the items of a list do not."""

TRUNCATED = identity.current().group("audit") + "/truncated"
_MAX_USER_AGENT = 1024
_encode = msgspec.json.Encoder(order="deterministic").encode


class UserInfo(msgspec.Struct, omit_defaults=True):
    """Who asked; all empty when the credentials were no good."""

    username: str = ""
    uid: str = ""
    groups: Sequence[str] = ()
    extra: Mapping[str, Sequence[str]] = msgspec.field(default_factory=dict)


class ObjectReference(msgspec.Struct, omit_defaults=True, rename="camel"):
    """What was asked for."""

    resource: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    api_group: str = ""
    api_version: str = ""
    resource_version: str = ""
    subresource: str = ""


class ResponseStatus(msgspec.Struct, omit_defaults=True, kw_only=True):
    """How it ended; the texts are those of the Status that the caller got."""

    metadata: msgspec.Raw = msgspec.field(default_factory=lambda: msgspec.Raw(b"{}"))
    status: str = ""
    message: str = ""
    reason: str = ""
    details: Any = None
    code: int


class Event(msgspec.Struct, omit_defaults=True, kw_only=True, rename="camel"):
    """One stage of one request; fields in the order of the wire."""

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
    """Return *event* as one line of JSON."""
    return _encode(event) + b"\n"


def truncated(event: Event) -> Event:
    """Return *event* without the objects, marked as such."""
    annotations = {**event.annotations, TRUNCATED: "true"}
    return msgspec.structs.replace(event, request_object=None, response_object=None, annotations=annotations)


def user_info(user: User) -> UserInfo:
    """Return *user* as events show it."""
    return UserInfo(user.name, user.uid, user.groups, user.extra)


def user_agent(headers: Mapping[str, str]) -> str:
    """Return the name of the caller's program, not longer than anyone wants to read."""
    text = headers.get("User-Agent", "")
    return text if len(text) <= _MAX_USER_AGENT else text[:_MAX_USER_AGENT] + "...TRUNCATED"


def source_ips(headers: Mapping[str, str], remote: str | None) -> list[str]:
    """Return where the request came from: as proxies tell it, then the neighbour itself."""
    found = []
    if "X-Forwarded-For" in headers:
        found = [part.strip() for part in headers["X-Forwarded-For"].split(",") if is_ip(part.strip())]
    if "X-Real-Ip" in headers and is_ip(address := headers["X-Real-Ip"].strip()) and address not in found[-1:]:
        found.append(address)
    if remote and remote not in found[-1:]:
        found.append(remote)
    return found


def timestamp(nanoseconds: int) -> str:
    """Return a time of day (since the epoch) with six digits of the second."""
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    return f"{_second(seconds)}.{rest // 1000:06}Z"


@lru_cache(maxsize=4)
def _second(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}"


def legacy_line(event: Event) -> bytes:
    """Return *event* as one line of text (spec: opt.audit-log-format)."""
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
