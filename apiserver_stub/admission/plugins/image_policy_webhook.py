"""ImagePolicyWebhook admission plugin: check the images of pods by a webhook, and cache its decisions."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from cachetools import TLRUCache

from apiserver_stub.admission import AdmissionPlugin
from apiserver_stub.admission.config import AdmissionError, unknown_members
from apiserver_stub.admission.context import AdmissionContext
from apiserver_stub.admission.listers import annotations_of
from apiserver_stub.admission.pod_fields import containers
from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.verbs.admission import AdmissionRequest

if TYPE_CHECKING:
    from apiserver_stub.webhook import Webhook
from nodeagent.base.aio import Clock
from nodeagent.base.identity import Identity
from nodeagent.base.kubeconfig import KubeconfigError

_CACHE_SIZE = 1024
_SHAPE = {"imagePolicy": {"kubeConfigFile": "", "allowTTL": 0, "denyTTL": 0, "retryBackoff": 0, "defaultAllow": True}}
_LIMITS = {"allowTTL": (1, 1800), "denyTTL": (1, 1800), "retryBackoff": (1, 300_000)}
"""Bounds in seconds, seconds and milliseconds; -1 disables caching, 0 selects the default."""


def read_config(config: Object, directory: Path) -> tuple[Path, Object]:
    """Return the path of the kubeconfig, relative to *directory*, and the settings of *config*.

    :raises AdmissionError: *config* is invalid or missing.
    """
    if problems := list(_problems(config)):
        raise AdmissionError(*(f"ImagePolicyWebhook: {problem}" for problem in problems))
    settings = config["imagePolicy"]
    return directory / settings["kubeConfigFile"], settings


class ImagePolicyWebhook(AdmissionPlugin):
    """Check the images of pods by a webhook, and cache its decisions (spec: admission.ImagePolicyWebhook)."""

    name = "ImagePolicyWebhook"
    order = 1200
    enabled_by_default = False
    resources = ("pods", "pods/ephemeralcontainers")

    def __init__(self, service: Webhook, settings: Object, clock: Clock, identity: Identity) -> None:
        self._service = service
        domain = identity.group("image-policy")
        self._annotation_domain, self._failed_open = f".{domain}/", f"alpha.{domain}/failed-open"
        self._audit_prefix = f"imagepolicywebhook.{domain}/"
        self._api_version = identity.group("imagepolicy") + "/v1alpha1"
        self._allowed_by_default = bool(settings.get("defaultAllow"))
        self._allow_seconds = _seconds(settings.get("allowTTL"), 300)
        self._deny_seconds = _seconds(settings.get("denyTTL"), 30)
        self._statuses: TLRUCache[bytes, Object] = TLRUCache(_CACHE_SIZE, self._expiry, timer=clock.now)

    @classmethod
    async def create(cls, context: AdmissionContext) -> Self:
        # Deferred: imports aiohttp, which the discovery of plugins does not need.
        from apiserver_stub.webhook import Webhook

        path, settings = read_config(context.config, context.config_dir)
        pause = settings.get("retryBackoff") or 0
        try:
            webhook = await asyncio.to_thread(Webhook, path, first_pause_seconds=pause / 1000 if pause > 0 else 0.5)
        except KubeconfigError as error:
            raise AdmissionError(f"{cls.name}: imagePolicy.kubeConfigFile: {error}") from error
        return cls(await context.resources.enter_async_context(webhook), settings, context.clock, context.identity)

    async def validate(self, call: AdmissionRequest) -> None:
        spec = call.obj["spec"]
        if call.operation == "UPDATE" and _images(spec) == _images((call.old or {}).get("spec") or {}):
            return
        given = annotations_of(call.obj)
        review: Object = {
            "containers": [{"image": image} for image in _images(spec)],
            "namespace": call.namespace,
        }
        if annotations := {key: value for key, value in given.items() if self._annotation_domain in key}:
            review["annotations"] = annotations
        status = await self._review(call, review)
        for key, value in (status.get("auditAnnotations") or {}).items():
            call.request.annotations[f"{self._audit_prefix}{key}"] = str(value)
        if not status.get("allowed"):
            reason = status.get("reason")
            text = f"image policy webhook backend denied one or more images: {reason}"
            raise call.forbidden(text if reason else "one or more images rejected by webhook backend")

    async def _review(self, call: AdmissionRequest, review: Object) -> Object:
        from apiserver_stub.webhook import WebhookError

        key = objects.encode(review)
        if (cached := self._statuses.get(key)) is not None:
            return cached
        body = {"kind": "ImageReview", "apiVersion": self._api_version, "metadata": {}, "spec": review}
        try:
            response: Any = await self._service.post(body)
            status = response.get("status") if isinstance(response, dict) else None
            if not isinstance(status, dict):
                raise WebhookError("the response has no status")
            for name, kind in (("allowed", bool), ("auditAnnotations", dict)):
                if not isinstance(status.get(name), kind | None):
                    raise WebhookError(f"the status in the response has an invalid field: {name}")
        except WebhookError as error:
            if not self._allowed_by_default:
                raise call.forbidden(str(error)) from error
            call.request.annotations[self._failed_open] = "true"
            return {"allowed": True}
        self._statuses[key] = status
        return status

    def _expiry(self, _key: bytes, status: Object, now: float) -> float:
        return now + (self._allow_seconds if status.get("allowed") else self._deny_seconds)


def _images(spec: Object) -> list[str]:
    return [container.get("image", "") for _, container in containers(spec)]


def _seconds(value: int | None, default: int) -> float:
    return default if not value else -math.inf if value == -1 else value


def _problems(config: Object) -> Iterator[str]:
    if not config:
        yield "no config specified"
        return
    errors = list(unknown_members(config, _SHAPE))
    yield from errors
    settings = config.get("imagePolicy") or {}
    if errors:
        return
    if not settings.get("kubeConfigFile"):
        yield "imagePolicy.kubeConfigFile: Required value"
    for name, (low, high) in _LIMITS.items():
        value = settings.get(name) or 0
        if value not in (0, -1) and not low <= value <= high:
            yield f"imagePolicy.{name}: valid value is between {low} and {high}, got {value}"
