"""ValidatingAdmissionWebhook admission plugin: call validating webhooks concurrently."""

from __future__ import annotations

import asyncio
from typing import Self

from apiserver_stub.admission.context import AdmissionContext
from apiserver_stub.admission.manifest_config import load_manifests
from apiserver_stub.admission.webhooks.dispatcher import WebhookPlugin
from apiserver_stub.admission.webhooks.users import configured_users
from apiserver_stub.verbs.admission import AdmissionRequest


class ValidatingAdmissionWebhook(WebhookPlugin):
    """Call validating webhooks concurrently (spec: admission.ValidatingAdmissionWebhook)."""

    name = "ValidatingAdmissionWebhook"
    order = 3400
    enabled_by_default = True
    kind = "ValidatingWebhookConfiguration"
    plural = "validatingwebhookconfigurations"
    annotation_group = "validating.webhook.admission"
    part = "validating-webhook"
    span = "Call validating webhook"

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

    async def validate(self, call: AdmissionRequest) -> None:
        if not self.current(call.resource):
            return
        if not (matching := await self.matching(call)):
            return
        with self.timed(call):
            results = await asyncio.gather(*(self.invoke(call, match) for match in matching), return_exceptions=True)
        for index, (match, result) in enumerate(zip(matching, results, strict=True)):
            if result is False:
                self.note_failed_open(call, match.hook, f"round_0_index_{index}")
        for result in results:
            if isinstance(result, BaseException):
                raise result
