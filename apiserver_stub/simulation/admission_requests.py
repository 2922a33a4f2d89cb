"""Requests for webhook configurations, and for config maps that are reviewed by webhooks."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Callable, Sequence
from typing import Any

from apiserver_stub.simulation.admission import INVALID, REVIEWED, Reviewed, ReviewedWrite, label
from apiserver_stub.simulation.client import MERGE, Lost, Response
from apiserver_stub.simulation.invariants import Invariants
from apiserver_stub.simulation.requests import Requests
from apiserver_stub.simulation.violations import Violations
from apiserver_stub.simulation.webhooks import BROAD, HEALTHY, MUTATING, NAMES, NONCE, WebhookServer

_GROUP = "/apis/admissionregistration.k8s.io/v1"
_SERVICE = {"name": "webhooks", "namespace": "default"}
_QUEUED_SECONDS = 16.0
"""Longest time for which flow control holds a request, and the latencies of the network."""
_MOST_SECONDS = 66.0
_REVIEWED = "(object == null ? oldObject : object)"
_NAMED = re.compile(r'webhook "([a-z]+-[0-9])\.simulated\.test"')


class AdmissionRequests:
    """Steps with webhooks.

    :param calm: returns a value that is the same at two times if there was no fault between them; ``None`` during one.
    """

    def __init__(
        self,
        requests: Requests,
        invariants: Invariants,
        reviewed: Reviewed,
        violations: Violations,
        server: WebhookServer,
        now: Callable[[], float],
        calm: Callable[[], object],
    ) -> None:
        self._requests, self._invariants, self._violations = requests, invariants, violations
        self._reviewed, self._server, self._now, self._calm = reviewed, server, now, calm
        self._nonces = itertools.count(1)

    # --- webhooks ---------------------------------------------------------------------------------------------

    async def apply_webhook(
        self,
        webhook: str,
        policy: str,
        timeout: int,
        match: str,
        deletes: bool,
        again: bool,
        service: bool,
    ) -> None:
        """Create or replace the configuration of a webhook."""
        plural, kind = _resource(webhook)
        operations = ["CREATE", "UPDATE", *(["DELETE"] if deletes else [])]
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": operations}
        selected = {REVIEWED: "true", **({label(webhook): "true"} if match == "selector" else {})}
        spec: dict[str, Any] = {
            "name": f"{webhook}.simulated.test",
            "clientConfig": {"url": f"https://{webhook}.simulated.test/{webhook}"},
            "rules": [rule],
            "failurePolicy": policy,
            "timeoutSeconds": timeout,
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "objectSelector": {"matchLabels": selected},
        }
        if service:
            await self._requests.send("POST", "/api/v1/namespaces/default/services", _service())
            spec["clientConfig"] = {"service": {**_SERVICE, "path": f"/{webhook}"}}
        if match == "condition":
            spec["matchConditions"] = [
                {"name": "labeled", "expression": f"'{label(webhook)}' in {_REVIEWED}.metadata.labels"}
            ]
        elif match == INVALID:
            spec["matchConditions"] = [{"name": INVALID, "expression": f"{_REVIEWED}.data.missing == 'text'"}]
        if webhook in MUTATING and again:
            spec["reinvocationPolicy"] = "IfNeeded"
        body: dict[str, Any] = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind}
        body["metadata"] = {"name": webhook}
        body["webhooks"] = [spec]
        await self._apply(plural, body)

    async def apply_broad_webhook(
        self, resources: str, policy: str, timeout: int, behavior: str, seconds: float
    ) -> None:
        """Create or replace the configuration of a webhook for objects of many kinds, which fails for some time."""
        rule = {"apiGroups": ["*"], "apiVersions": ["*"], "resources": [resources], "operations": ["*"]}
        spec = {
            "name": f"{BROAD}.simulated.test",
            "clientConfig": {"url": f"https://{BROAD}.simulated.test/{BROAD}"},
            "rules": [rule],
            "failurePolicy": policy,
            "timeoutSeconds": timeout,
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        plural, kind = _resource(BROAD)
        body = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": BROAD}}
        await self._apply(plural, {**body, "webhooks": [spec]})
        self._server.set_behavior(BROAD, behavior)
        await asyncio.sleep(seconds)
        self._server.set_behavior(BROAD, HEALTHY)

    async def _apply(self, plural: str, body: dict[str, Any]) -> None:
        if (await self._requests.send("POST", f"{_GROUP}/{plural}", body)).code == 409:
            await self._requests.send("PUT", f"{_GROUP}/{plural}/{body['metadata']['name']}", body)

    async def delete_webhook(self, webhook: str, service: bool) -> None:
        """Delete the configuration of a webhook, or the service of webhooks."""
        if service:
            await self._requests.send("DELETE", "/api/v1/namespaces/default/services/webhooks")
        else:
            await self._requests.send("DELETE", f"{_GROUP}/{_resource(webhook)[0]}/{webhook}")

    def set_webhook(self, webhook: str, behavior: str) -> None:
        """Change the reaction of a webhook to requests."""
        self._server.set_behavior(webhook, behavior)

    def calm(self) -> None:
        """Make all webhooks respond."""
        self._server.heal()

    # --- reviewed config maps ---------------------------------------------------------------------------------

    async def write_reviewed(
        self, namespace: str, name: str, method: str, webhooks: Sequence[str], dry_run: bool
    ) -> None:
        """Create, replace, patch or apply a config map whose labels select webhooks."""
        nonce = f"n{next(self._nonces)}"
        labels: dict[str, str | None] = {REVIEWED: "true", **{label(each): "true" for each in webhooks}}
        body: dict[str, Any] = {"metadata": {"name": name, "labels": labels}, "data": {NONCE: nonce}}
        path, query = f"/api/v1/namespaces/{namespace}/configmaps", ["dryRun=All"] if dry_run else []
        content_type = "application/json"
        if method != "POST":
            path += f"/{name}"
        if method == "PATCH":
            content_type = MERGE
            labels |= {label(each): None for each in NAMES if each not in webhooks}
        elif method == "APPLY":
            body |= {"apiVersion": "v1", "kind": "ConfigMap"}
            content_type, method = "application/apply-patch+yaml", "PATCH"
            query += ["fieldManager=simulated", "force=true"]
        write = self._reviewed.begin(nonce, dry_run=dry_run)
        text = path + ("?" + "&".join(query) if query else "")
        response, seconds, calm = await self._send(method, text, body, content_type)
        self._verify(f"{method} {text}", write, response, seconds, calm)

    async def delete_reviewed(self, namespace: str, name: str) -> None:
        """Delete such a config map."""
        self._invariants.request_deletion(f"{namespace}/{name}")
        path = f"/api/v1/namespaces/{namespace}/configmaps/{name}"
        _, seconds, calm = await self._send("DELETE", path)
        if calm and seconds > _MOST_SECONDS:
            self._violations.report(f"DELETE {path} took {seconds:.1f} s")

    async def _send(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json"
    ) -> tuple[Response, float, bool]:
        """Send a request; return the response, its duration in seconds, and whether there was no fault in that time.

        :raises Lost: the result is unknown.
        """
        started_at, calm = self._now(), self._calm()
        try:
            response = await self._requests.send(method, path, body, content_type)
        except Lost as lost:
            if str(lost) == "timeout" and calm is not None and calm == self._calm():
                self._violations.report(f"{method} {path} received no response")
            raise
        return response, self._now() - started_at, calm is not None and calm == self._calm()

    def _verify(self, request: str, write: ReviewedWrite, response: Response, seconds: float, calm: bool) -> None:
        """Verify the response to a write."""
        report, message = self._violations.report, str(response.content.get("message", ""))
        if calm and seconds > min(self._reviewed.longest(write) + _QUEUED_SECONDS, _MOST_SECONDS):
            report(f"{request} took {seconds:.1f} s")
        if response.code in (200, 201):
            if write.dry_run:
                self._reviewed.verify_written(request, write, response.content)
            return
        if (named := _NAMED.search(message)) is None:
            return
        webhook = named.group(1)
        if "denied the request" in message:
            if not any(each.outcome == "denied" for each in self._reviewed.reviews(write, webhook)):
                report(f"{request} was denied by {webhook}, which did not: {message}")
        elif "failed calling webhook" in message:
            if not self._reviewed.ever_fails(write, webhook):
                report(f"{request} failed because of {webhook}, whose failures are ignored: {message}")
            elif calm and self._reviewed.works(write, webhook):
                report(f"{request} failed because of {webhook}, which responds: {message}")
        elif "the patch of webhook" in message:
            if self._server.healthy_since(webhook, write.started_at):
                report(f"{request} failed because of the valid patch of {webhook}: {message}")
        elif "match condition" not in message or not self._reviewed.ever_invalid(write, webhook):
            report(f"{request} failed with {response.code}: {message}")


def _resource(webhook: str) -> tuple[str, str]:
    if webhook in MUTATING:
        return "mutatingwebhookconfigurations", "MutatingWebhookConfiguration"
    return "validatingwebhookconfigurations", "ValidatingWebhookConfiguration"


def _service() -> dict[str, Any]:
    return {"metadata": {"name": _SERVICE["name"]}, "spec": {"ports": [{"port": 443}]}}
