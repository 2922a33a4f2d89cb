"""Services of others that change or judge requests."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from apiserver_stub.admission import AdmissionPlugin, own_copy
from apiserver_stub.admission.reading import Reader
from apiserver_stub.admission.webhooks.client import WebhookClient
from apiserver_stub.admission.webhooks.matching import matched_as, namespace_matches, never_asked, object_matches
from apiserver_stub.admission.webhooks.review import VERSIONS, AdmissionResponse, denial, read_answer, request_body
from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.json_patch import apply_json_patch
from apiserver_stub.apimachinery.label_selectors import read_selector
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import ApiError, bad_request, internal
from apiserver_stub.cel import CelError, Expression
from apiserver_stub.cel.admission import AdmissionExpression
from apiserver_stub.cel.authorization import Authorizer, Decide, authorizer_value
from apiserver_stub.kinds.registry import Registry, Resource
from apiserver_stub.schema.field_validation import Misfit
from apiserver_stub.verbs.admission import AdmissionRequest, Operation
from apiserver_stub.verbs.writing import check_types
from apiserver_stub.webhook import WebhookError
from nodeagent.base import identity
from nodeagent.base.selectors import LabelSelector

_log = logging.getLogger(__name__)
_GROUP = identity.current().group("admissionregistration")
_MUTATION = identity.current().group("mutation.webhook.admission")
_FAILED_OPEN = identity.current().group("failed-open.validation.webhook.admission")
_SAFE = ("None", "NoneOnDryRun")


@dataclass(frozen=True, slots=True)
class Hook:
    """One webhook of a configuration, made ready."""

    configuration: str
    spec: Object
    namespaces: LabelSelector
    objects: LabelSelector
    conditions: tuple[Expression, ...]

    @property
    def name(self) -> str:
        return str(self.spec["name"])

    @property
    def key(self) -> str:
        return f"{self.configuration}/{self.name}"


class _Webhooks(AdmissionPlugin):
    """What both plugins share: which webhooks are asked, and how."""

    plural = ""
    operations = ("CREATE", "UPDATE", "DELETE", "CONNECT")

    def __init__(self, reader: Reader, registry: Registry, client: WebhookClient, decide: Decide) -> None:
        self._reader, self._registry, self._client, self._decide = reader, registry, client, decide
        self._collection = reader.store.collection(f"{_GROUP}/{self.plural}")
        self._seen_end = -1
        self._hooks: list[Hook] = []

    def concerns(self, resource: Resource, operation: Operation, subresource: str) -> bool:
        return not never_asked(resource)

    async def matching(self, call: AdmissionRequest) -> list[tuple[Hook, Resource]]:
        """Return the webhooks to call, and the version in which each receives the request.

        :raises ApiError: a condition has no value and the webhook must not be skipped.
        """
        authorizer = Authorizer(call.request.user, self._decide)
        while True:
            found: list[tuple[Hook, Resource]] = []
            failure: ApiError | None = None
            with authorizer.during():
                try:
                    found = list(self._matching(call))
                except ApiError as error:
                    failure = error
            if await authorizer.settle():
                continue
            if failure is not None:
                raise failure
            return found

    def _matching(self, call: AdmissionRequest) -> Iterator[tuple[Hook, Resource]]:
        hooks = self._current()
        if not hooks:
            return
        namespace = self._reader.namespace(call.namespace) if call.resource.namespaced else {}
        for hook in hooks:
            spec = hook.spec
            seen_as = matched_as(spec.get("rules") or (), spec.get("matchPolicy") or "", call, self._registry)
            if seen_as is None or not namespace_matches(hook.namespaces, call, namespace):
                continue
            if object_matches(hook.objects, call) and self._conditions_hold(hook, call, seen_as):
                yield hook, seen_as

    async def ask(
        self, call: AdmissionRequest, hook: Hook, seen_as: Resource, *, may_patch: bool
    ) -> AdmissionResponse | None:
        """Return what *hook* says, ``None`` when it cannot be asked and may be passed by.

        :raises ApiError: it refuses, or cannot be asked and must be.
        """
        spec = hook.spec
        if call.dry_run and spec.get("sideEffects") not in _SAFE:
            raise bad_request(f'admission webhook "{hook.name}" does not support dry run')
        version = next((item for item in spec.get("admissionReviewVersions") or () if item in VERSIONS), VERSIONS[0])
        body = request_body(call, seen_as, version, _in_version(call.new, seen_as), _in_version(call.old, seen_as))
        try:
            found = await self._client.post(spec.get("clientConfig") or {}, body, spec.get("timeoutSeconds") or 10)
            answer = read_answer(found, version, body["request"]["uid"], may_patch=may_patch)
        except WebhookError as error:
            self._failed(hook, call, f"failed to call webhook: {error}")
            return None
        for key, value in answer.annotations.items():
            call.request.annotations[f"{hook.name}/{key}"] = value
        call.request.warnings.extend(answer.warnings)
        if not answer.allowed:
            raise denial(hook.name, answer.status)
        return answer

    def _failed(self, hook: Hook, call: AdmissionRequest, problem: str) -> None:
        text = f'failed calling webhook "{hook.name}": {problem}'
        _log.warning("Webhook failed", extra={"webhook": hook.name, "err": problem})
        if hook.spec.get("failurePolicy") != "Ignore":
            raise internal(text)

    def _conditions_hold(self, hook: Hook, call: AdmissionRequest, seen_as: Resource) -> bool:
        if not hook.conditions:
            return True
        data = condition_data(call, seen_as)
        try:
            return all(expression.evaluate(data) is True for expression in hook.conditions)
        except CelError as error:
            if hook.spec.get("failurePolicy") == "Ignore":
                return False
            raise call.refuse(f'failed to evaluate a match condition of webhook "{hook.name}": {error}') from error

    def _current(self) -> list[Hook]:
        end = self._collection.end
        if end != self._seen_end:
            found = (objects.decode(record.data) for record in self._collection.select())
            self._hooks, self._seen_end = [hook for item in found for hook in _hooks_of(item)], end
        return self._hooks


class MutatingAdmissionWebhook(_Webhooks):
    """Lets webhooks change objects, one after the other (spec: admission.MutatingAdmissionWebhook)."""

    name = "MutatingAdmissionWebhook"
    plural = "mutatingwebhookconfigurations"

    async def admit(self, call: AdmissionRequest) -> None:
        if not self._current():
            return
        for index, (hook, seen_as) in enumerate(await self.matching(call)):
            if call.reinvoking:
                again = hook.spec.get("reinvocationPolicy") == "IfNeeded"
                if not again or call.seen.get(hook.key) in (None, objects.encode(call.new)):
                    continue
            answer = await self.ask(call, hook, seen_as, may_patch=True)
            if answer is None:
                continue
            changed = answer.patch is not None and call.new is not None and self._apply(call, hook, seen_as, answer)
            if changed and not call.reinvoking:
                call.reinvoke = True
            call.seen[hook.key] = objects.encode(call.new)
            note = {"configuration": hook.configuration, "webhook": hook.name, "mutated": changed}
            turn = 1 if call.reinvoking else 0
            call.request.annotations[f"{_MUTATION}/round_{turn}_index_{index}"] = objects.encode(note).decode()

    def _apply(self, call: AdmissionRequest, hook: Hook, seen_as: Resource, answer: AdmissionResponse) -> bool:
        new = call.obj
        before = objects.encode(new)
        try:
            result: Any = apply_json_patch(own_copy(_in_version(new, seen_as) or {}), answer.patch)
            if not isinstance(result, dict):
                raise internal(f'webhook "{hook.name}" made something else of the object')
            if seen_as is not call.resource and call.resource.convert is not None:
                result = call.resource.convert(result)
            result["kind"], result["apiVersion"] = new["kind"], new["apiVersion"]
            check_types(result)
        except (ApiError, Misfit) as error:
            raise internal(f'the patch of webhook "{hook.name}" cannot be applied: {error}') from error
        if not call.subresource:
            call.resource.strategy.default(result)
        new.clear()
        new.update(result)
        return objects.encode(new) != before


class ValidatingAdmissionWebhook(_Webhooks):
    """Lets webhooks refuse requests, all at once (spec: admission.ValidatingAdmissionWebhook)."""

    name = "ValidatingAdmissionWebhook"
    plural = "validatingwebhookconfigurations"

    async def validate(self, call: AdmissionRequest) -> None:
        if not self._current():
            return
        matching = await self.matching(call)
        asked = (self.ask(call, hook, seen_as, may_patch=False) for hook, seen_as in matching)
        results = await asyncio.gather(*asked, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    def _failed(self, hook: Hook, call: AdmissionRequest, problem: str) -> None:
        super()._failed(hook, call, problem)
        call.request.annotations[f"{_FAILED_OPEN}/{hook.name}"] = hook.name


def condition_data(call: AdmissionRequest, seen_as: Resource) -> dict[str, Any]:
    """Return the variables of conditions."""
    new, old = _in_version(call.new, seen_as), _in_version(call.old, seen_as)
    request = request_body(call, seen_as, VERSIONS[0], None, None)["request"]
    del request["object"], request["oldObject"]
    return {
        "object": new,
        "oldObject": old,
        "request": request,
        "namespaceObject": None,
        "authorizer": authorizer_value(call.request.info),
    }


def _hooks_of(configuration: Object) -> Iterator[Hook]:
    for spec in configuration.get("webhooks") or ():
        yield Hook(
            configuration["metadata"]["name"],
            spec,
            read_selector(spec.get("namespaceSelector")),
            read_selector(spec.get("objectSelector")),
            tuple(AdmissionExpression(item["expression"]) for item in spec.get("matchConditions") or ()),
        )


def _in_version(obj: Object | None, resource: Resource) -> Object | None:
    if obj is None or resource.convert is None or obj.get("apiVersion") == resource.api_version:
        return obj
    return resource.convert(obj)
