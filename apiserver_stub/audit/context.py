"""The audit context of a request and the state that the contexts share."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from apiserver_stub.apimachinery import media
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.request import Request, RequestInfo, User
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.audit import event as events
from apiserver_stub.audit.backend import Backend
from apiserver_stub.audit.event import Event, ObjectReference, ResponseStatus
from apiserver_stub.audit.policy import NAMES, Decision, Level, Policy, audit_version
from apiserver_stub.transport.http import HttpRequest
from apiserver_stub.transport.rendered import Rendered
from apiserver_stub.transport.response_writer import audit_id
from nodeagent.base.identity import Identity
from nodeagent.base.structs import Struct

ID_HEADER = "Audit-ID"
_SLOW_NANOSECONDS = 500_000_000
_STATUS_PREFIXES = (b'{"kind":"Status"', b'{\n  "kind": "Status"')
_PROTOBUF_STATUS = b"\x12\x06Status"


class _Identity(msgspec.Struct, rename="camel"):
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""


class _Named(msgspec.Struct):
    metadata: _Identity | None = None


class AuditNames(Struct, frozen=True):
    """API version and annotations of events, and names for decoding bodies."""

    api_version: str
    decision: str
    reason: str
    latency: str
    """Group of the durations of slow requests."""
    protobuf: str
    """Media type."""
    api_domain: str

    @classmethod
    def of(cls, identity: Identity) -> AuditNames:
        authorization = identity.group("authorization")
        return cls(
            audit_version(identity),
            f"{authorization}/decision",
            f"{authorization}/reason",
            identity.group("apiserver.latency"),
            identity.protobuf_media_type,
            identity.api_domain,
        )


class Audit:
    """Policy, backends and counters; :meth:`begin` creates the audit context of a request."""

    def __init__(self, policy: Policy, backends: Sequence[Backend], errors: Counter[str], identity: Identity) -> None:
        self._policy, self._backends = policy, backends
        self.names = AuditNames.of(identity)
        self.events = 0
        self.rejected = 0
        self.levels: Counter[str] = Counter()
        self.errors = errors

    def begin(self, http: HttpRequest, info: RequestInfo, user: User | None) -> AuditContext | None:
        """Return the audit context of a request, or ``None`` if the policy does not log it."""
        decision = self._policy.decide(user, info)
        self.levels[NAMES[decision.level]] += 1
        return AuditContext(self, http, info, user, decision) if decision.level else None

    async def authentication_failed(self, http: HttpRequest, info: RequestInfo) -> None:
        """Record a request whose credentials are missing or invalid."""
        context = self.begin(http, info, None)
        if context is not None:
            context.event.response_status = ResponseStatus(message=_attempted(http), code=401)
            await context.emit("ResponseStarted")

    async def deliver(self, event: Event, *, last: bool) -> bool:
        """Submit *event* to all backends; return whether all strict backends have written it.

        :param last: the response follows, and waits for all blocking backends, not only for the strict ones; each
            backend writes events in the order of submission.
        """
        self.events += 1
        waits = []
        for backend in self._backends:
            delivered = backend.submit(event)
            if delivered is not None and (last or backend.strict):
                waits.append((backend, delivered))
        stored = True
        for backend, delivered in waits:
            stored = (await backend.wait(delivered) or not backend.strict) and stored
        return stored

    def deliver_later(self, event: Event) -> None:
        """Submit *event* to all backends without waiting, since the client has disconnected."""
        self.events += 1
        for backend in self._backends:
            backend.submit(event)

    async def close(self) -> None:
        """Deliver the queued events and close the backends."""
        await asyncio.gather(*(backend.close() for backend in self._backends))


class AuditContext:
    """The audit event of a request, completed and emitted stage by stage."""

    def __init__(
        self, audit: Audit, http: HttpRequest, info: RequestInfo, user: User | None, decision: Decision
    ) -> None:
        self._audit, self._decision = audit, decision
        self._received = time.time_ns()
        self._info = info
        self._durations: Mapping[str, float] = {}
        headers = http.headers
        name = headers.get(ID_HEADER) or audit_id(http)
        received = events.timestamp(self._received)
        self.event = Event(
            kind="Event",
            api_version=audit.names.api_version,
            level=NAMES[decision.level],
            audit_id=name,
            stage="RequestReceived",
            request_uri=http.target,
            verb=info.verb,
            user=events.user_info(user) if user is not None else events.UserInfo(),
            source_ips=events.source_ips(headers, http.remote),
            user_agent=events.user_agent(headers),
            object_ref=_reference(info) if info.is_resource else None,
            request_received_timestamp=received,
            stage_timestamp=received,
        )

    def annotate(self, request: Request) -> None:
        """Add the annotations of *request* to the event, and if it is slow, the durations of its parts."""
        self._durations = request.durations
        request.annotations = self.event.annotations
        if self._decision.level >= Level.Request:
            request.content_annotations = self.event.annotations

    async def received(self) -> None:
        """Record the arrival of the request.

        :raises ApiError: 500, a strict backend did not write the event.
        """
        if not await self.emit("RequestReceived"):
            self._audit.rejected += 1
            raise ApiError(500, "InternalError", "Internal error occurred: failed to store audit event")

    def authorized(self, allowed: bool, reason: str) -> None:
        """Record the authorization decision."""
        self.event.annotations[self._audit.names.decision] = "allow" if allowed else "forbid"
        self.event.annotations[self._audit.names.reason] = reason

    def authorization_failed(self) -> None:
        """Record that authorization failed with an error."""
        self.event.annotations[self._audit.names.reason] = "internal error"

    def impersonated(self, user: User) -> None:
        """Record the impersonated user."""
        self.event.impersonated_user = events.user_info(user)

    def sent(self, headers: Mapping[str, str], body: bytes) -> None:
        """Record the object that the request body names, and the body itself if the level includes it."""
        if not body or self.event.object_ref is None:
            return
        content_type = headers.get("Content-Type", "")
        names = self._info.verb in ("create", "update")
        # The verb rejects the body.
        with contextlib.suppress(ApiError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            if self._decision.level >= Level.Request:
                content = _read(content_type, body, self._audit.names)
                if names and isinstance(content, dict):
                    self._name(msgspec.convert(content, _Named, strict=False))
                self.event.request_object = self._trim(content)
            elif names:
                plain = content_type.partition(";")[0].strip().lower() in ("", media.JSON)
                decoded = msgspec.json.decode(body, type=_Named) if plain else None
                self._name(
                    decoded or msgspec.convert(_read(content_type, body, self._audit.names), _Named, strict=False)
                )

    async def started(self, code: int) -> None:
        """Record the start of the response to a long-running request."""
        self.event.response_status = ResponseStatus(code=code)
        await self.emit("ResponseStarted")

    async def responded(self, rendered: Rendered) -> None:
        """Record the response."""
        self.event.response_status = ResponseStatus(code=rendered.code)
        if self.event.object_ref is not None or rendered.code >= 400:
            self._record_body(rendered)
        await self.emit("ResponseComplete")

    async def ended(self) -> None:
        """Record the end of the response to a long-running request."""
        await self.emit("ResponseComplete")

    def abandoned(self) -> None:
        """Record that the client disconnected before the response."""
        if self.event.stage == "ResponseComplete":
            return  # The client disconnected while the last event was being delivered.
        if self.event.response_status is None:
            message = "Connection closed early"
            self.event.response_status = ResponseStatus(status="Success", message=message, code=200)
        if self._stamp("ResponseComplete"):
            self._audit.deliver_later(self.event)

    async def failed(self, error: Exception) -> None:
        """Record an internal error of the server."""
        message = f"APIServer panic'd: {error}"
        self.event.response_status = ResponseStatus(status="Failure", message=message, reason="InternalError", code=500)
        await self.emit("Panic")

    async def emit(self, stage: str) -> bool:
        """Deliver the current event unless the policy omits *stage*; return whether all strict backends have it."""
        return await self._audit.deliver(self.event, last=stage != "RequestReceived") if self._stamp(stage) else True

    def _stamp(self, stage: str) -> bool:
        if stage in self._decision.omit_stages:
            return False
        event = self.event
        event.stage = stage
        if stage != "RequestReceived":
            now = time.time_ns()
            event.stage_timestamp = events.timestamp(now)
            if stage == "ResponseComplete" and (elapsed := now - self._received) > _SLOW_NANOSECONDS:
                for part, seconds in {"total": elapsed / 1e9, **self._durations}.items():
                    event.annotations[f"{self._audit.names.latency}/{part}"] = f"{seconds:.9f}s"
        return True

    def _name(self, named: _Named) -> None:
        reference, metadata = self.event.object_ref, named.metadata
        if reference is not None and metadata is not None:
            reference.namespace = reference.namespace or metadata.namespace
            reference.name = reference.name or metadata.name
            reference.uid = reference.uid or metadata.uid
            reference.resource_version = reference.resource_version or metadata.resource_version

    def _record_body(self, rendered: Rendered) -> None:
        head = rendered.pieces[0][:96] if rendered.pieces else b""
        is_status = head.startswith(_STATUS_PREFIXES) or _PROTOBUF_STATUS in head or head.startswith(b"apiVersion: v1")
        include_object = self._decision.level >= Level.RequestResponse
        if not is_status and not include_object:
            return
        with contextlib.suppress(ApiError, msgspec.MsgspecError):  # Plain text.
            body = b"".join(rendered.pieces)
            if not is_status and not self._decision.omit_managed_fields and rendered.content_type == media.JSON:
                self.event.response_object = msgspec.Raw(msgspec.json.format(body, indent=-1))
                return
            content = _read(rendered.content_type, body, self._audit.names)
            if is_status and content.get("kind") == "Status":
                self.event.response_status = _status(content, rendered.code)
            if include_object:
                self.event.response_object = self._trim(content)

    def _trim(self, content: Any) -> Any:
        if self._decision.omit_managed_fields and isinstance(content, dict):
            items = content.get("items")
            rows = content.get("rows")
            nested = [row.get("object") for row in rows or () if isinstance(row, dict)]
            for obj in (content, *(items if isinstance(items, list) else ()), *nested):
                metadata = obj.get("metadata") if isinstance(obj, dict) else None
                if isinstance(metadata, dict):
                    metadata.pop("managedFields", None)
        return content


def _reference(info: RequestInfo) -> ObjectReference:
    return ObjectReference(
        resource=info.resource,
        namespace=info.namespace,
        name=info.name,
        api_group=info.group,
        api_version=info.version,
        subresource=info.subresource,
    )


def _read(content_type: str, body: bytes, names: AuditNames) -> Any:
    """Return the decoded *body*; patches are JSON unless their media type is YAML."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind == names.protobuf:
        return media.read_protobuf(body, "Object", names.api_domain)
    if "yaml" in kind:
        return media.read_yaml(body, "Object", [])
    if kind not in ("", media.JSON) and not kind.endswith("+json"):
        raise _NotAnObject
    return msgspec.json.decode(body)


class _NotAnObject(ApiError):
    """A body that is plain text."""

    def __init__(self) -> None:
        super().__init__(415, "UnsupportedMediaType", "not an object")


def _status(content: Object, code: int) -> ResponseStatus:
    return ResponseStatus(
        status=content.get("status", ""),
        message=content.get("message", ""),
        reason=content.get("reason", ""),
        details=content.get("details") or None,
        code=code,
    )


def _attempted(http: HttpRequest) -> str:
    """Return a message that lists the kinds of the rejected credentials."""
    attempted = []
    scheme, _, value = http.headers.get("Authorization", "").strip().partition(" ")
    if scheme.lower() == "basic":
        with contextlib.suppress(binascii.Error, ValueError):
            if b":" in base64.b64decode(value, validate=True):
                attempted.append("basic")
    if scheme.lower() == "bearer" and value:
        attempted.append("bearer")
    if http.tls is not None and http.tls.getpeercert():
        attempted.append("x509")
    if not attempted:
        return "Authentication failed, no credentials provided"
    return f"Authentication failed, attempted: {', '.join(attempted)}"
