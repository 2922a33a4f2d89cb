"""Policy status controller: reports errors in the types of the expressions of ValidatingAdmissionPolicies."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from apiserver_stub.admission.policy_types import PolicyTypeChecker
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.controllers.plugin import Controller, ControllerContext
from apiserver_stub.controllers.views import View
from apiserver_stub.controllers.work_queue import WorkQueue
from apiserver_stub.controllers.workloads.owners import seen

if TYPE_CHECKING:
    from nodeagent.base.identity import Identity

_PLURAL = "validatingadmissionpolicies"


class PolicyView(View, frozen=True, rename="camel"):
    """A ValidatingAdmissionPolicy."""

    status: dict[str, Any] | None = None

    @property
    def is_checked(self) -> bool:
        """``True`` if the status is that of the current generation."""
        return self.metadata.generation <= ((self.status or {}).get("observedGeneration") or 0)


class PolicyStatus(Controller):
    """ValidatingAdmissionPolicies."""

    name, alias = "validatingadmissionpolicy-status-controller", "validatingadmissionpolicy-status"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        identity, release = context.identity, context.release
        self._writer = context.writer(self.name)
        group = identity.group("admissionregistration")
        self._resource = next(item for item in context.registry if (item.group, item.plural) == (group, _PLURAL))
        self._checker = PolicyTypeChecker(context.registry, identity.api_domain, release.minor)
        self._queue: WorkQueue[str] = WorkQueue(self.name, context.clock)
        context.index.listen(self._resource.storage, self._changed)

    @classmethod
    def resources_of(cls, identity: Identity) -> Sequence[str]:
        return (f"{_PLURAL}.{identity.group('admissionregistration')}",)

    @classmethod
    def views_of(cls, identity: Identity) -> Mapping[str, type[View]]:
        return {f"{identity.group('admissionregistration')}/{_PLURAL}": PolicyView}

    async def run(self) -> None:
        await self._queue.run(self._process)

    def _changed(self, before: View | None, after: View | None) -> None:
        if isinstance(after, PolicyView) and not after.is_checked:
            self._queue.add(after.key)

    async def _process(self, key: str) -> None:
        context = self.context
        await context.leadership.acquired()
        await context.index.catch_up()
        view: PolicyView | None = context.index.get(self._resource.storage, key)
        record = context.verbs.store.collection(self._resource.storage).get(key)
        if view is None or record is None or view.is_checked:
            return
        policy, warnings = self._resource.read(record), []
        for warning in self._checker.warnings(policy):
            if warning is not None:
                warnings.append(warning)
            await asyncio.sleep(0)
        generation = policy["metadata"].get("generation") or 0

        def edit(obj: Object) -> None:
            if obj["metadata"].get("generation") == generation:
                checks = {"expressionWarnings": warnings} if warnings else {}
                obj["status"] = {
                    **(obj.get("status") or {}),
                    "observedGeneration": generation,
                    "typeChecking": checks,
                }

        await self._writer.change(self._resource, seen(view), edit)
