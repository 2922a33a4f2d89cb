"""Webhook dispatch: select the webhooks of a request, call one and apply its failure policy."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from apiserver_stub.admission import AdmissionPlugin
from apiserver_stub.admission.listers import Lister
from apiserver_stub.admission.manifests import Manifests
from apiserver_stub.admission.metrics import CALL_FAILED, AdmissionMetrics
from nodeagent.base.structs import Struct

if TYPE_CHECKING:
    from apiserver_stub.admission.webhooks.client import WebhookClient
from apiserver_stub.admission.webhooks.conditions import Views, condition_data, views_of
from apiserver_stub.admission.webhooks.matching import is_exempt, matched_as, namespace_matches, object_matches
from apiserver_stub.admission.webhooks.review import (
    VERSIONS,
    AdmissionResponse,
    WebhookCallError,
    denial,
    read_response,
    request_body,
)
from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.label_selectors import read_selector
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import ApiError, bad_request, internal, qualified
from apiserver_stub.cel import CelError
from apiserver_stub.cel.admission import AdmissionExpression
from apiserver_stub.cel.authorization import Authorizer, Decide
from apiserver_stub.cel.budget import CONDITIONS_LIMIT, Budget
from apiserver_stub.kinds.registry import Registry, Resource
from apiserver_stub.verbs.admission import AdmissionRequest, Operation
from nodeagent.base import tracing
from nodeagent.base.identity import Identity
from nodeagent.base.selectors import LabelSelector

_log = logging.getLogger(__name__)
_SAFE = ("None", "NoneOnDryRun")


class Hook(Struct, frozen=True):
    """One webhook of a configuration, with compiled selectors and conditions."""

    configuration: str
    spec: Object
    namespaces: LabelSelector
    objects: LabelSelector
    conditions: tuple[AdmissionExpression, ...]

    @property
    def name(self) -> str:
        return str(self.spec["name"])

    @property
    def fails_open(self) -> bool:
        return self.spec.get("failurePolicy") == "Ignore"

    @property
    def key(self) -> str:
        return f"{self.configuration}/{self.name}"


class Match(Struct, frozen=True):
    """A webhook that is called for a request."""

    index: int
    """Position among the webhooks of all configurations."""
    hook: Hook
    seen_as: Resource
    """The version in which it receives the request."""


Apply = Callable[[AdmissionResponse], Awaitable[None]]
"""Applies a response; raises :class:`ApiError` if that is impossible."""


class WebhookPlugin(AdmissionPlugin):
    """Base of the plugins that call webhooks."""

    kind = plural = ""
    """Kind and plural of the webhook configurations."""
    annotation_group = ""
    """The group in the keys of audit annotations, without the API domain."""
    part = ""
    """Name of the duration of calls in the audit events of slow requests."""
    span = ""
    """Name of the span of a call."""
    operations = ("CREATE", "UPDATE", "DELETE", "CONNECT")

    def __init__(
        self,
        lister: Lister,
        registry: Registry,
        client: WebhookClient,
        decide: Decide,
        identity: Identity,
        manifests: Manifests | None = None,
        *,
        metrics: AdmissionMetrics | None = None,
    ) -> None:
        self._group = identity.group("admissionregistration")
        self.annotation_prefix = identity.group(self.annotation_group)
        self._lister, self._registry, self._client, self._decide = lister, registry, client, decide
        self._collection = lister.store.collection(f"{self._group}/{self.plural}")
        self._manifests = manifests
        self._metrics = metrics or AdmissionMetrics()
        self._static: tuple[list[Object], list[Hook]] = ([], [])
        self._seen_end = -1
        self._stored: list[Hook] = []

    def concerns(self, resource: Resource, operation: Operation, subresource: str) -> bool:
        return self._manifests is not None or not is_exempt(resource, self._group)

    async def matching(self, call: AdmissionRequest) -> list[Match]:
        """Return the webhooks to call.

        :raises ApiError: a match condition cannot be evaluated and the failure policy is ``Fail``.
        """
        authorizer = Authorizer(call.request.user, self._decide)
        candidates = list(self._candidates(call))
        views = await views_of(call, (match.seen_as for match in candidates if match.hook.conditions))
        return await authorizer.evaluate(
            lambda: [match for match in candidates if self._conditions_hold(match, call, views)], ApiError
        )

    def _candidates(self, call: AdmissionRequest) -> Iterator[Match]:
        hooks = self.current(call.resource)
        if not hooks:
            return
        namespace = self._lister.namespace(call.namespace) if call.resource.namespaced else {}
        for index, hook in enumerate(hooks):
            spec = hook.spec
            seen_as = matched_as(spec.get("rules") or (), spec.get("matchPolicy") or "", call, self._registry)
            if seen_as is None or not namespace_matches(hook.namespaces, call, namespace):
                continue
            if object_matches(hook.objects, call):
                yield Match(index, hook, seen_as)

    async def invoke(self, call: AdmissionRequest, match: Match, apply: Apply | None = None) -> bool:
        """Call a webhook; return whether it has responded, as otherwise the failure policy is ``Ignore``.

        :param apply: applies the response of a webhook that may change the object.
        :raises ApiError: the webhook denied the request, its response cannot be applied, or the call failed and the
            failure policy is ``Fail``.
        """
        hook, seen_as, spec = match.hook, match.seen_as, match.hook.spec
        if call.dry_run and spec.get("sideEffects") not in _SAFE:
            raise bad_request(f'admission webhook "{hook.name}" does not support dry run')
        version = next((item for item in spec.get("admissionReviewVersions") or () if item in VERSIONS), VERSIONS[0])
        new, old = (await views_of(call, [seen_as]))[seen_as.api_version]
        body = request_body(call, seen_as, version, new, old)
        started = time.perf_counter()
        try:
            review = await self._post(call, hook, body)
            response = read_response(review, body["apiVersion"], body["request"]["uid"], may_patch=apply is not None)
        except WebhookCallError as error:
            self._count(hook, call, started, CALL_FAILED, "calling_webhook_error", rejected=not hook.fails_open)
            self._failed(hook, f"failed to call webhook: {error}")
            return False
        for key, value in response.annotations.items():
            call.request.annotations[f"{hook.name}/{key}"] = value
        call.request.warnings.extend(response.warnings)
        if not response.allowed:
            rejection = denial(hook.name, response.status)
            self._count(hook, call, started, rejection.code, "no_error", rejected=True)
            raise rejection
        try:
            if apply is not None:
                await apply(response)
        except ApiError:
            self._count(hook, call, started, 0, "apiserver_internal_error", rejected=True)
            raise
        self._count(hook, call, started, 200, "", rejected=False)
        return True

    @contextmanager
    def timed(self, call: AdmissionRequest) -> Iterator[None]:
        """Measure the duration of calls."""
        started = time.perf_counter()
        try:
            yield
        finally:
            call.request.add_duration(self.part, time.perf_counter() - started)

    def note_failed_open(self, call: AdmissionRequest, hook: Hook, turn: str) -> None:
        """Record in the audit event that the failure of a webhook was ignored.

        :param turn: number of the pass, and of the webhook in it.
        """
        call.request.annotations[f"failed-open.{self.annotation_prefix}/{turn}"] = hook.name

    def _count(
        self, hook: Hook, call: AdmissionRequest, started: float, code: int, error: str, *, rejected: bool
    ) -> None:
        seconds = time.perf_counter() - started
        self._metrics.webhook_called(hook.name, self.kind, call.operation, seconds, code, error, rejected=rejected)

    def _failed(self, hook: Hook, problem: str) -> None:
        """Apply the failure policy after a failed call.

        :raises ApiError: the failure policy is ``Fail``.
        """
        fields = {"webhook": hook.name, "err": problem}
        if hook.fails_open:
            _log.warning("Failed calling webhook, failing open", extra=fields)
            self._metrics.webhook_failed_open(hook.name, self.kind)
            return
        _log.warning("Failed calling webhook, failing closed", extra=fields)
        raise internal(f'failed calling webhook "{hook.name}": {problem}')

    async def _post(self, call: AdmissionRequest, hook: Hook, body: Object) -> Object:
        def attributes() -> tracing.Attributes:
            return {
                "configuration": hook.configuration,
                "webhook": hook.name,
                "resource": qualified(call.resource.plural, call.resource.group),
                "subresource": call.subresource,
                "operation": call.operation,
                "UID": body["request"]["uid"],
            }

        spec = hook.spec
        with tracing.child(self.span, attributes):
            return await self._client.post(spec.get("clientConfig") or {}, body, spec.get("timeoutSeconds") or 10)

    def _conditions_hold(self, match: Match, call: AdmissionRequest, views: Views) -> bool:
        hook = match.hook
        if not hook.conditions:
            return True
        data = condition_data(call, match.seen_as, views)
        try:
            budget = Budget(CONDITIONS_LIMIT)
            return all(expression.evaluate(data, budget) is True for expression in hook.conditions)
        except CelError as error:
            if hook.fails_open:
                return False
            raise call.forbidden(f'failed to evaluate a match condition of webhook "{hook.name}": {error}') from error

    def current(self, resource: Resource) -> list[Hook]:
        """Return the webhooks for *resource*: those of manifests, then those of stored configurations."""
        static = self._of_manifests()
        if self._manifests is not None and is_exempt(resource, self._group):
            return static
        end = self._collection.end
        if end != self._seen_end:
            configurations = (objects.decode(record.data) for record in self._collection.select())
            self._stored, self._seen_end = [hook for item in configurations for hook in _hooks_of(item)], end
            self._metrics.retain_webhooks({hook.name for hook in (*static, *self._stored)}, self.kind)
        return [*static, *self._stored] if static else self._stored

    def _of_manifests(self) -> list[Hook]:
        if self._manifests is None:
            return []
        configurations = self._manifests.every(self.plural)
        if configurations is not self._static[0]:
            self._static = configurations, [hook for item in configurations for hook in _hooks_of(item)]
        return self._static[1]


def _hooks_of(configuration: Object) -> Iterator[Hook]:
    for spec in configuration.get("webhooks") or ():
        yield Hook(
            configuration["metadata"]["name"],
            spec,
            read_selector(spec.get("namespaceSelector")),
            read_selector(spec.get("objectSelector")),
            tuple(AdmissionExpression(item["expression"]) for item in spec.get("matchConditions") or ()),
        )
