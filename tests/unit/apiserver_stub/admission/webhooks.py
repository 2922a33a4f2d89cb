"""Backends of admission webhooks, and servers with webhooks that call them."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

from apiserver_stub.admission import AdmissionChain, AdmissionPlugin
from apiserver_stub.admission.listers import Lister
from apiserver_stub.admission.metrics import AdmissionMetrics
from apiserver_stub.admission.plugins.mutating_admission_webhook import MutatingAdmissionWebhook
from apiserver_stub.admission.plugins.validating_admission_webhook import ValidatingAdmissionWebhook
from apiserver_stub.admission.webhooks.review import WebhookCallError
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.options import parse
from apiserver_stub.server.kinds import build_registry
from apiserver_stub.telemetry.exposition import Choice, Page
from apiserver_stub.verbs.admission import AdmissionRequest
from nodeagent.base.identity import Identity
from tests.unit.apiserver_stub.admission.conftest import make_call
from tests.unit.apiserver_stub.api import Object
from tests.unit.apiserver_stub.authz.conftest import Memory

GROUP = "admissionregistration.k8s.io"
REGISTRY = build_registry(parse([]))
MAPS = REGISTRY.find("", "v1", "configmaps")
RULE = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*", "*/*"]}


def config_map(**data: str) -> Object:
    metadata = {"name": "m", "namespace": "default", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


class Webhooks:
    """A server whose webhooks are called by a backend in memory."""

    def __init__(self, plugin: type[MutatingAdmissionWebhook] | type[ValidatingAdmissionWebhook]) -> None:
        self.store: Any = Memory()
        self.store.put("core/namespaces", {"metadata": {"name": "default", "labels": {"env": "test"}}})
        self.responses: dict[str, Any] = {}
        """Response by name of the webhook: fields of the response, or an error; allowed by default."""
        self.reviews: list[tuple[str, Object, float]] = []
        """Webhook, review and timeout of each call."""
        self.metrics = AdmissionMetrics()
        self._plural = plugin.plural
        self.plugin: Any = self._new(plugin, None)

    def _new(self, plugin: Any, manifests: Any) -> AdmissionPlugin:
        async def decide(user: Any, info: Any) -> tuple[bool, str]:
            return info.verb == "get", ""

        client: Any = self
        found: AdmissionPlugin = plugin(
            Lister(self.store), REGISTRY, client, decide, Identity(), manifests, metrics=self.metrics
        )
        return found

    def use_manifests(self, manifests: Any) -> None:
        self.plugin = self._new(type(self.plugin), manifests)

    def add(self, name: str, **spec: Any) -> None:
        """Store a configuration with one webhook that matches everything."""
        self.store.put(f"{GROUP}/{self._plural}", configuration(name, **spec))

    async def post(self, config: Object, body: Object, timeout_seconds: float) -> Object:
        """Respond as the webhook whose name is the URL."""
        name = config.get("url") or ""
        self.reviews.append((name, json.loads(json.dumps(body)), timeout_seconds))
        response = self.responses.get(name, {})
        if isinstance(response, str):
            raise WebhookCallError(response)
        fields = {"uid": body["request"]["uid"], "allowed": True, **response}
        return {"kind": "AdmissionReview", "apiVersion": body["apiVersion"], "response": fields}

    @property
    def called(self) -> list[str]:
        return [name for name, _, _ in self.reviews]

    @property
    def request(self) -> Object:
        """The request of the last review."""
        found: Object = self.reviews[-1][1]["request"]
        return found

    async def send(self, obj: Any = None, *others: AdmissionPlugin, **attributes: Any) -> AdmissionRequest:
        """Admit a request for a config map, and return it."""
        call = make_call(obj or config_map(own="x"), **{"resource": MAPS, **attributes})
        if self.plugin.concerns(call.resource, call.operation, call.subresource):
            await AdmissionChain([self.plugin, *others]).check(call)
        return call

    async def problem(self, obj: Any = None, **attributes: Any) -> str:
        """Return the code and the message of the error for a request, empty if it is admitted."""
        try:
            await self.send(obj, **attributes)
        except ApiError as error:
            return f"{error.code} {error.message}"
        return ""

    def metric(self, name: str) -> list[str]:
        """Return the lines of a metric."""
        page = Page(Choice())
        self.metrics.show_on(page)
        return [line for line in page.text()[0].decode().splitlines() if line.startswith(name)]


def configuration(name: str, **spec: Any) -> Object:
    fields = {"name": name, "rules": [RULE], "clientConfig": {"url": name}, "admissionReviewVersions": ["v1"], **spec}
    return {"metadata": {"name": f"of-{name}"}, "webhooks": [fields]}


def patched(*operations: tuple[str, str, Any]) -> Object:
    """Return the fields of a response with a JSON patch."""
    patch: Sequence[Object] = [{"op": op, "path": path, "value": value} for op, path, value in operations]
    return {"patch": base64.b64encode(json.dumps(patch).encode()).decode(), "patchType": "JSONPatch"}
