"""MutatingAdmissionWebhook admission plugin: call mutating webhooks in sequence."""

from __future__ import annotations

import asyncio
from typing import Any, Self

from apiserver_stub.admission.context import AdmissionContext
from apiserver_stub.admission.manifest_config import load_manifests
from apiserver_stub.admission.webhooks.conditions import in_version
from apiserver_stub.admission.webhooks.dispatcher import Hook, Match, WebhookPlugin
from apiserver_stub.admission.webhooks.review import AdmissionResponse
from apiserver_stub.admission.webhooks.users import configured_users
from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.json_patch import apply_json_patch
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import ApiError, internal
from apiserver_stub.verbs.admission import AdmissionRequest

_PATCHES = "patch.webhook.admission"
"""Group of the annotations of audit events that contain patches."""


class MutatingAdmissionWebhook(WebhookPlugin):
    """Call mutating webhooks in sequence (spec: admission.MutatingAdmissionWebhook)."""

    name = "MutatingAdmissionWebhook"
    order = 3200
    enabled_by_default = True
    kind = "MutatingWebhookConfiguration"
    plural = "mutatingwebhookconfigurations"
    annotation_group = "mutation.webhook.admission"
    part = "mutating-webhook"
    span = "Call mutating webhook"

    @classmethod
    async def create(cls, context: AdmissionContext) -> Self:
        users = await asyncio.to_thread(configured_users, cls.name, context.config, context.config_dir)
        manifests = await load_manifests(cls.name, context, (cls.kind,))
        client = context.webhooks.with_users(users)
        return cls(
            context.lister,
            context.registry,
            client,
            context.authorize,
            context.identity,
            manifests,
            metrics=context.metrics,
        )

    async def admit(self, call: AdmissionRequest) -> None:
        if not self.current(call.resource):
            return
        for match in await self.matching(call):
            hook = match.hook
            if call.reinvoking:
                again = hook.spec.get("reinvocationPolicy") == "IfNeeded"
                if not again or call.seen.get(hook.key) in (None, objects.encode(call.new)):
                    continue
            await self._call(call, match)

    async def _call(self, call: AdmissionRequest, match: Match) -> None:
        request, hook, changed = call.request, match.hook, False
        turn = f"round_{int(call.reinvoking)}_index_{match.index}"

        async def apply(response: AdmissionResponse) -> None:
            nonlocal changed
            if response.patch:
                changed = await self._apply(call, match, response)
                patch = objects.encode({**_note(hook), "patch": response.patch, "patchType": "JSONPatch"})
                request.content_annotations[f"{request.identity.group(_PATCHES)}/{turn}"] = patch.decode()

        try:
            with self.timed(call):
                has_responded = await self.invoke(call, match, apply)
        finally:
            mutated = objects.encode({**_note(hook), "mutated": changed})
            request.annotations[f"{self.annotation_prefix}/{turn}"] = mutated.decode()
        if not has_responded:
            self.note_failed_open(call, hook, turn)
        if changed:
            call.reinvoke = True
        call.seen[hook.key] = objects.encode(call.new)

    async def _apply(self, call: AdmissionRequest, match: Match, response: AdmissionResponse) -> bool:
        """Apply the patch; return whether the object has changed.

        :raises ApiError: the patch cannot be applied.
        """
        # Imported here, as listing the plugins does not need the schemas.
        from apiserver_stub.schema.field_validation import SchemaMismatch
        from apiserver_stub.verbs.body import check_types

        hook, seen_as = match.hook, match.seen_as
        if call.new is None:
            text = "attempted to modify the object, which is not supported for this operation"
            raise internal(f'admission webhook "{hook.name}" {text}')
        new = call.new
        before = objects.encode(new)
        try:
            result: Any = apply_json_patch(_copy(await in_version(new, seen_as) or {}), response.patch)
            if not isinstance(result, dict):
                raise internal(f'the patch of webhook "{hook.name}" does not result in an object')
            if seen_as is not call.resource:
                result["kind"], result["apiVersion"] = new["kind"], seen_as.api_version
                result = await in_version(result, call.resource) or {}
            result["kind"], result["apiVersion"] = new["kind"], new["apiVersion"]
            check_types(result, call.resource.schema_in(call.request.identity.api_domain))
        except (ApiError, SchemaMismatch) as error:
            raise internal(f'the patch of webhook "{hook.name}" cannot be applied: {error}') from error
        if not call.subresource:
            call.resource.strategy.default(result)
        new.clear()
        new.update(result)
        return objects.encode(new) != before


def _note(hook: Hook) -> Object:
    return {"configuration": hook.configuration, "webhook": hook.name}


def _copy(obj: Object) -> Object:
    """Return a deep copy."""
    copy: Object = objects.decode(objects.encode(obj))
    return copy
