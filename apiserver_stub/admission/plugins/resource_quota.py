"""ResourceQuota admission plugin: reject requests that exceed a quota and record usage."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Self

from apiserver_stub.admission import AdmissionPlugin
from apiserver_stub.admission.config import HEAD, AdmissionError, check_kind, unknown_members
from apiserver_stub.admission.context import AdmissionContext
from apiserver_stub.admission.quota.usage import CLAIMS, PODS, SERVICES, concerned, in_scope, not_given, scopes, usage
from apiserver_stub.admission.quota.usage_tracker import QuotaUsageTracker
from apiserver_stub.admission.quota.usage_tracker import exceeded as exceeded_names
from apiserver_stub.apimachinery import objects, resource_lists
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.resource_lists import Amounts
from apiserver_stub.apimachinery.status import ApiError, qualified
from apiserver_stub.kinds.registry import Resource
from apiserver_stub.storage import Outcome, Put, Record
from apiserver_stub.verbs.admission import AdmissionRequest, Operation
from nodeagent.base.identity import Identity
from nodeagent.base.quantity import Quantity

_WAIT_SECONDS = 3.0
"""Maximum time for which a request waits for those of other servers before it is rejected."""
_SHAPE = {
    **HEAD,
    "limitedResources": [
        {
            "apiGroup": "",
            "resource": "",
            "matchContains": [""],
            "matchScopes": [{"scopeName": "", "operator": "", "values": [""]}],
        }
    ],
}


class ResourceQuota(AdmissionPlugin):
    """Reject requests that exceed a quota and record usage (spec: admission.ResourceQuota).

    Usage is charged before an object is stored, by an atomic update of the quota, so that concurrent requests cannot
    exceed it together. The charge of a request that fails afterwards is released by the next recount
    (:mod:`apiserver_stub.admission.quota.usage_tracker`).
    """

    name = "ResourceQuota"
    order = 3500
    enabled_by_default = True

    def __init__(self, usage_tracker: QuotaUsageTracker, config: Object, identity: Identity) -> None:
        """Read *config*, a ``ResourceQuotaConfiguration`` with the resources that require a quota.

        :raises AdmissionError: *config* is invalid.
        """
        problems: list[str] = []
        if config:
            group = identity.group("apiserver.config")
            problems += check_kind(config, group, "ResourceQuotaConfiguration", ("v1", "v1beta1", "v1alpha1"))
            problems += unknown_members(config, _SHAPE)
        if problems:
            raise AdmissionError(*(f"ResourceQuota: {problem}" for problem in problems))
        self.usage_tracker, self._names = usage_tracker, usage_tracker.names
        self._limited: dict[str, list[Object]] = {}
        for item in config.get("limitedResources") or ():
            label = qualified(item.get("resource") or "", item.get("apiGroup") or "")
            self._limited.setdefault(label, []).append(item)

    @classmethod
    async def create(cls, context: AdmissionContext) -> Self:
        tracker = QuotaUsageTracker(context.store, context.registry, context.identity)
        return cls(tracker, context.config, context.identity)

    def concerns(self, resource: Resource, operation: Operation, subresource: str) -> bool:
        label = qualified(resource.plural, resource.group)
        if label == PODS and subresource == "resize":
            return operation == "UPDATE" and self.usage_tracker.tracks(label)
        if subresource or not self.usage_tracker.tracks(label):
            return False
        return operation == "CREATE" or (operation == "UPDATE" and label in (SERVICES, CLAIMS))

    async def validate(self, call: AdmissionRequest) -> None:
        label = qualified(call.resource.plural, call.resource.group)
        limited = self._limited.get(label)
        quotas = self.usage_tracker.quotas(call.namespace)
        if not quotas and not limited:
            return
        matching = [quota for quota in quotas if self._applies_to(quota, label, call.obj)]
        requested = usage(label, call.obj, self._names)
        if call.old:
            before = usage(label, call.old, self._names)
            requested = {name: amount - before.get(name, Quantity()) for name, amount in requested.items()}
        requested = {name: amount for name, amount in requested.items() if amount > Quantity()}
        for quota in matching:
            names = concerned(label, _hard(quota), self._names)
            if label == PODS and (problem := not_given(call.obj, names, self._names.label_domain)):
                raise call.forbidden(f"failed quota: {quota['metadata']['name']}: {problem}")
        if not requested:
            return
        self._check_covered(call, label, requested, quotas, matching)
        await self._charge_all(call, matching, requested)

    def _applies_to(self, quota: Object, label: str, obj: Object) -> bool:
        return bool(concerned(label, _hard(quota), self._names)) and all(
            in_scope(label, obj, expression) for expression in scopes(quota)
        )

    async def _charge_all(self, call: AdmissionRequest, quotas: list[Object], requested: Amounts) -> None:
        """Charge *requested* to *quotas*.

        With several servers, an exceeded quota is read again, since another server may have freed usage, and requests
        in progress elsewhere are awaited for a few seconds if they decide about this one.

        :raises ApiError: 403, a quota would be exceeded.
        """
        left = {quota["metadata"]["name"]: quota for quota in quotas}
        loop, refreshed = asyncio.get_running_loop(), False
        end = loop.time() + _WAIT_SECONDS
        while True:
            try:
                await self._charge_some(call, left, requested)
                return
            except ApiError:
                if not refreshed:
                    refreshed = fits = await self.usage_tracker.refresh()
                else:
                    fits = await self.usage_tracker.may_fit_later(left.values(), requested, end - loop.time())
                if not fits:
                    raise
            left = {name: item for item in self.usage_tracker.quotas(call.namespace) if (name := _name(item)) in left}

    async def _charge_some(self, call: AdmissionRequest, left: dict[str, Object], requested: Amounts) -> None:
        for quota in left.values():  # Check all first, so that a rejected request is charged to none.
            self._charged(call, quota, requested)
        if call.dry_run:
            return
        for name, quota in list(left.items()):
            await self._charge(call, quota, requested)
            del left[name]

    async def _charge(self, call: AdmissionRequest, quota: Object, requested: Amounts) -> None:
        name, amounts = quota["metadata"]["name"], dict(requested)

        def decide(current: Record | None) -> Outcome:
            if current is None:
                raise LookupError(name)
            charged = self._charged(call, objects.decode(current.data), amounts)
            self.usage_tracker.reserve(quota, amounts)  # A recount before the object is stored would not include it.
            return Put(objects.encode_for_store(charged))

        self.usage_tracker.announce(quota, amounts)
        try:
            await self.usage_tracker.update(objects.key_of(call.namespace, name), decide)
        except BaseException as error:
            self.usage_tracker.free(quota, amounts)
            if isinstance(error, LookupError):
                return  # The quota has been deleted.
            raise
        call.request.afterwards.append(lambda: self.usage_tracker.free(quota, amounts))

    def _charged(self, call: AdmissionRequest, quota: Object, requested: Amounts) -> Object:
        """Return *quota* with *requested* added to its usage.

        :raises ApiError: 403, the quota would be exceeded.
        """
        hard = resource_lists.read(_hard(quota))
        status = quota.get("status") or {}
        limited = {name: amount for name, amount in requested.items() if name in hard}
        used = resource_lists.read(status.get("used"))
        exceeded = exceeded_names(hard, used, limited)
        if exceeded or used.keys() != hard.keys() or status.get("hard") != _hard(quota):
            used = self.usage_tracker.count(quota, without=requested)  # The stored usage may be outdated.
            exceeded = exceeded_names(hard, used, limited)
        if exceeded:
            name = quota["metadata"]["name"]
            raise call.forbidden(
                f"exceeded quota: {name}, requested: {resource_lists.shown(limited, exceeded)}, "
                f"used: {resource_lists.shown(used, exceeded)}, limited: {resource_lists.shown(hard, exceeded)}"
            )
        resource_lists.add(used, limited)
        return {**quota, "status": {"hard": _hard(quota), "used": resource_lists.write(used)}}

    def _check_covered(
        self, call: AdmissionRequest, label: str, requested: Amounts, quotas: list[Object], matching: list[Object]
    ) -> None:
        """Reject the use of resources that the configuration limits and no quota covers.

        :raises ApiError: 403, a resource or scope is not covered.
        """
        covered = {name for quota in matching for name in _hard(quota)}
        limited = self._limited.get(label) or []
        names = {
            name for item in limited for name in requested for part in item.get("matchContains") or () if part in name
        }
        if missing := sorted(names - covered):
            raise call.forbidden(f"insufficient quota to consume: {','.join(missing)}")
        covered_scopes = {
            expression["scopeName"] for quota in quotas for expression in _matching(label, call.obj, scopes(quota))
        }
        for item in limited:
            for expression in _matching(label, call.obj, item.get("matchScopes") or []):
                if expression["scopeName"] not in covered_scopes:
                    values = " ".join(expression.get("values") or ())
                    text = f"{expression['scopeName']} {expression.get('operator', '')} [{values}]"
                    raise call.forbidden(f"insufficient quota to match these scopes: [{{{text}}}]")


def _hard(quota: Object) -> dict[str, str]:
    return (quota.get("spec") or {}).get("hard") or {}


def _name(quota: Object) -> str:
    return str(quota["metadata"]["name"])


def _matching(label: str, obj: Object, expressions: list[Object]) -> Iterator[Object]:
    return (expression for expression in expressions if in_scope(label, obj, expression))
