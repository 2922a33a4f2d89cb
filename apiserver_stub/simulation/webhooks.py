"""Simulated server of admission webhooks, which also rejects, hangs, responds with garbage or is unreachable."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from apiserver_stub.simulation.services import Call, Reply, http_response
from nodeagent.base.simulation.trace import Trace
from nodeagent.base.structs import MutableStruct

MUTATING, VALIDATING = ("mutating-0", "mutating-1"), ("validating-0", "validating-1")
NAMES = (*MUTATING, *VALIDATING)
BROAD = "broad-0"
"""A validating webhook for objects of all kinds, including those that controllers write."""
CONVERSION = "conversion-0"
"""A webhook that converts gadgets."""
FIELDS = {"v1": "first", "v2": "second"}
"""Field of the spec of a gadget by version."""
HEALTHY = "healthy"
BEHAVIORS = (HEALTHY, "reject", "hang", "refuse", "unreachable", "slow", "reset", "garbage")
NONCE = "nonce"
_SLOW_SECONDS = 40.0


class Review(MutableStruct):
    """The review of one request by one webhook.

    :ivar outcome: ``allowed``, ``denied``, or ``failed`` if no valid response reached the server in time.
    """

    webhook: str
    outcome: str = "failed"


class WebhookServer:
    """All webhooks; the last part of the path of a request is the name of one.

    :param now: returns the time in seconds.
    """

    def __init__(self, seed: object, trace: Trace, now: Callable[[], float]) -> None:
        self._trace, self._now = trace, now
        self._chance = random.Random(f"{seed}/webhooks")
        self._behaviors: dict[str, tuple[str, float]] = dict.fromkeys((*NAMES, BROAD, CONVERSION), (HEALTHY, 0.0))
        self.reviews: dict[str, list[Review]] = {}
        """Reviews by the nonce of the new object, or by the UID of the deleted one."""

    def set_behavior(self, name: str, behavior: str) -> None:
        """Set the behavior of a webhook."""
        if self._behaviors[name][0] != behavior:
            self._behaviors[name] = behavior, self._now()

    def heal(self) -> None:
        """Make all webhooks respond."""
        for name in self._behaviors:
            self.set_behavior(name, HEALTHY)

    def healthy_since(self, name: str, time: float) -> bool:
        """Return whether a webhook has responded correctly since *time*."""
        behavior, since = self._behaviors[name]
        return behavior == HEALTHY and since <= time

    def find(self, host: str, port: int) -> Webhook | None:
        """Return the webhook at a host and port; those of services share one."""
        name = host.partition(".")[0]
        return Webhook(self, name if name in self._behaviors else "")

    def accepts(self, name: str) -> bool | None:
        behavior = self._behaviors[name][0] if name else HEALTHY
        return None if behavior == "unreachable" else behavior != "refuse"

    def respond(self, call: Call) -> Reply:
        """Return the reaction to an admission review."""
        name = call.path.rpartition("/")[2]
        document = msgspec.json.decode(call.body)
        request = document["request"]
        if name == CONVERSION:
            return self._convert(document, request)
        new, old = request["object"] or {}, request["oldObject"] or {}
        review = Review(name)
        identity = str(request["name"])
        if name != BROAD:
            identity = new["data"][NONCE] if new else old["metadata"]["uid"]
            self.reviews.setdefault(identity, []).append(review)
        behavior = self._behaviors[name][0]
        self._trace.add("review", f"{name} {behavior} {request['operation']} {identity}")
        deadline = call.started_at + float(call.query.removeprefix("timeout=").removesuffix("s"))
        if behavior in ("hang", "unreachable"):
            return Reply()
        if behavior in ("reset", "refuse"):
            return Reply(closes=True)
        if behavior == "garbage":
            data, closes = self._garbage(document, name)
            return Reply(data, closes=closes)
        decision = "denied" if behavior == "reject" else "allowed"

        def delivered() -> None:
            if self._now() < deadline:
                review.outcome = decision

        seconds = self._chance.random() * _SLOW_SECONDS if behavior == "slow" else 0.0
        response = {"uid": request["uid"], "allowed": decision == "allowed"}
        if decision == "denied":
            response["status"] = {"code": self._chance.choice((400, 403, 422, 500)), "message": "rejected"}
        elif name in MUTATING and new:
            response |= _patch(mutation(name, new))
        if self._chance.random() < 0.2:
            response |= {"warnings": ["simulated"], "auditAnnotations": {"reviewed": "true"}}
        return Reply(http_response(_envelope(document, response)), seconds, delivered=delivered)

    def _convert(self, document: Mapping[str, Any], request: Mapping[str, Any]) -> Reply:
        """Return the reaction to a conversion review."""
        behavior = self._behaviors[CONVERSION][0]
        self._trace.add("review", f"{CONVERSION} {behavior} {request['desiredAPIVersion']}")
        if behavior in ("hang", "unreachable"):
            return Reply()
        if behavior in ("reset", "refuse"):
            return Reply(closes=True)
        version = request["desiredAPIVersion"]
        converted: list[Any] = [_converted(each, version) for each in request["objects"]]
        response = {"uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": converted}
        if behavior == "reject":
            response["result"] = {"status": "Failure", "message": "rejected"}
        elif behavior == "garbage":
            first = converted[0]
            response["convertedObjects"] = self._chance.choice(
                (
                    None,
                    {},
                    converted[1:],
                    [*converted, first],
                    [None, *converted[1:]],
                    [{**first, "apiVersion": "simulated.test/v9"}, *converted[1:]],
                    [{**first, "kind": "Other"}, *converted[1:]],
                    [{**first, "metadata": {**first["metadata"], "name": "other"}}, *converted[1:]],
                    [{**first, "metadata": {**first["metadata"], "labels": {"a": 7}}}, *converted[1:]],
                    [{**first, "metadata": None}, *converted[1:]],
                    request["objects"],
                )
            )
        seconds = self._chance.random() * _SLOW_SECONDS if behavior == "slow" else 0.0
        content = {"apiVersion": document["apiVersion"], "kind": "ConversionReview", "response": response}
        return Reply(http_response(content), seconds)

    def _garbage(self, document: Mapping[str, Any], name: str) -> tuple[bytes, bool]:
        """Return an invalid response, and whether the connection is closed after it."""
        uid = document["request"]["uid"]
        allowed = {"uid": uid, "allowed": True}
        texts: list[Any] = [
            b"",
            b"{",
            b"[" * 100_000,
            b"\xff\xfe",
            b"[]",
            b"null",
            _envelope(document, None),
            _envelope(document, []),
            _envelope(document, {"uid": "other", "allowed": True}),
            _envelope(document, {**allowed, "allowed": "no"}),
            _envelope(document, {**allowed, "allowed": 1}),
            _envelope(document, {**allowed, "status": "Success"}),
            _envelope(document, {**allowed, "warnings": "text"}),
            _envelope(document, {**allowed, "auditAnnotations": ["text"]}),
            {**_envelope(document, allowed), "kind": "Status"},
            {**_envelope(document, allowed), "apiVersion": "admission.k8s.io/v9"},
            _envelope(document, {**allowed, "patch": "e30=", "patchType": "JSONPatch"}),
            _envelope(document, {**allowed, "patch": "!", "patchType": "JSONPatch"}),
            _envelope(document, {**allowed, "patch": "W10=", "patchType": "MergePatch"}),
        ]
        if name in MUTATING:
            texts += [_envelope(document, {**allowed, **_patch(patch)}) for patch in _INVALID_PATCHES]
        text = self._chance.choice(texts)
        choice = self._chance.random()
        if choice < 0.1:
            return http_response(_envelope(document, allowed), status=self._chance.choice((302, 404, 500, 503))), False
        if choice < 0.2:
            return http_response(_envelope(document, allowed))[:-5], True
        if choice < 0.25:
            return b"\x15\x03\x01\r\n\r\n", True
        return http_response(text), False


class Webhook:
    """One webhook, or that of a service, whose requests name it."""

    def __init__(self, server: WebhookServer, name: str) -> None:
        self._server, self._name = server, name

    def accepts(self) -> bool | None:
        return self._server.accepts(self._name)

    def respond(self, call: Call) -> Reply:
        return self._server.respond(call)


def mutation(name: str, new: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the patch by a webhook: it records the nonce, and the other webhooks that have recorded it before."""
    data = new["data"]
    seen = [other for other in MUTATING if other != name and data.get(other) == data[NONCE]]
    return [
        {"op": "add", "path": f"/data/{name}", "value": data[NONCE]},
        {"op": "add", "path": f"/data/{name}.after", "value": " ".join(seen)},
    ]


def _converted(found: Mapping[str, Any], version: str) -> dict[str, Any]:
    """Return a gadget in a version, with the value in the field of the version."""
    spec = found.get("spec") or {}
    value = next((spec[field] for field in FIELDS.values() if field in spec), None)
    return {**found, "apiVersion": version, "spec": {FIELDS[version.rpartition("/")[2]]: value}}


_INVALID_PATCHES: tuple[Any, ...] = (
    [{"op": "add", "path": "/data", "value": 7}],
    [{"op": "add", "path": "/data/number", "value": 7}],
    [{"op": "remove", "path": "/data/missing"}],
    [{"op": "replace", "path": "/missing/field", "value": 1}],
    [{"op": "test", "path": "/kind", "value": "Secret"}],
    [{"op": "increment", "path": "/data/number"}],
    [{"path": "/data/number"}],
    [{"op": "remove", "path": ""}],
    [{"op": "replace", "path": "", "value": []}],
    [{"op": "replace", "path": "/metadata", "value": "text"}],
    [{"op": "replace", "path": "/metadata/namespace", "value": "other"}],
    [{"op": "add", "path": "/metadata/labels/simulated.test~1invalid", "value": "not a label"}],
    [7],
    {},
)


def _patch(patch: Any) -> dict[str, str]:
    return {"patchType": "JSONPatch", "patch": base64.b64encode(msgspec.json.encode(patch)).decode()}


def _envelope(document: Mapping[str, Any], response: Any) -> dict[str, Any]:
    return {"apiVersion": document["apiVersion"], "kind": "AdmissionReview", "response": response}
