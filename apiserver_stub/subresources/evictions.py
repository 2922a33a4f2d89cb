"""Evictions: the deletion of a pod by the graceful protocol, where its disruption budget allows it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery import media, objects
from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.apimachinery.status import ApiError, bad_request, done, forbidden, not_found
from apiserver_stub.kinds.disruption import BUDGETS, covers, is_healthy, set_condition
from apiserver_stub.storage import Keep, Outcome, Put, Record
from apiserver_stub.validation.disruption_budgets import ALWAYS
from apiserver_stub.verbs.admission import AdmissionRequest
from apiserver_stub.verbs.body import read_object
from apiserver_stub.verbs.delete import check_preconditions, remove, validate_options
from apiserver_stub.verbs.preparation import DryRun, settle_namespace
from apiserver_stub.verbs.responses import Reply
from apiserver_stub.verbs.write_options import check_options
from nodeagent.base.structs import Struct

if TYPE_CHECKING:
    from apiserver_stub.apimachinery.request import Request
    from apiserver_stub.kinds.registry import Registry, Resource
    from apiserver_stub.verbs.context import VerbContext

_OLD_VERSION, _VERSION = "policy/v1beta1", "policy/v1"
_PODS = "core/pods"
_FINISHED = ("Succeeded", "Failed")
_DISRUPTED_LIMIT = 2000
_ATTEMPTS, _PAUSE_SECONDS = 20, 0.1
_RETRY_SECONDS = 10


class EvictionSettings(Struct, frozen=True):
    """Feature gates of evictions."""

    marks_pods: bool
    """Evicted pods get the condition ``DisruptionTarget`` (feature gate ``PodDisruptionConditions``)."""
    reads_unhealthy_policy: bool
    """``unhealthyPodEvictionPolicy`` applies (feature gate ``PDBUnhealthyPodEvictionPolicy``)."""


class Evictions:
    """The subresource ``eviction`` of pods."""

    def __init__(self, context: VerbContext, registry: Registry, settings: EvictionSettings) -> None:
        self._context, self._registry, self._settings = context, registry, settings

    async def create(self, request: Request, resource: Resource) -> Reply:
        """Mark the pod as disrupted and delete it.

        The budget does not count a pod that does not run, nor, by its policy or while enough others are healthy, one
        that is not ready.

        :raises ApiError: 429, the disruption budget of the pod allows no disruption.
        """
        info = request.info
        check_options(request, "CreateOptions")
        eviction = _read(request)
        settle_namespace(request, resource, eviction["metadata"])
        call = AdmissionRequest("CREATE", request, resource, eviction, name=info.name, dry_run=request.dry_run)
        await self._context.admission.admit(call)
        if (eviction["metadata"].get("name") or "") != info.name:
            raise bad_request("name in URL does not match name in Eviction object")
        await self._context.admission.validate(call)
        removal = _Removal(
            self._context, request, resource, eviction.get("deleteOptions") or {}, marks=self._settings.marks_pods
        )
        await self._context.store.catch_up(_PODS)  # Another server of the same store may have changed the pod.
        for attempt in range(_ATTEMPTS):
            pod = removal.pod()
            if not _does_not_run(pod):
                break
            try:
                await removal.remove(pod, unchanged=_may_yet_run(pod))
            except ApiError as error:
                if error.reason != "Conflict" or removal.own_version or attempt == _ATTEMPTS - 1:
                    raise
                await asyncio.sleep(_PAUSE_SECONDS)
            else:
                return Reply(201, obj=done(201))
        budget = await self._budget_of(pod)
        spare = budget is not None and not is_healthy(pod) and self._spares(budget)
        if budget is not None and not spare:
            await self._spend(budget, info.name, dry_run=removal.dry_run)
        try:
            await removal.remove(pod, unchanged=spare)
        except ApiError as error:
            if budget is not None and spare and error.reason == "Conflict" and not removal.own_version:
                raise _too_soon(budget["metadata"]["name"]) from error
            raise
        return Reply(201, obj=done(201))

    async def _budget_of(self, pod: Object) -> Object | None:
        """Return the budget that covers *pod*.

        :raises ApiError: 500, there are several.
        """
        if self._registry.find("policy", "v1", "poddisruptionbudgets") is None:
            return None
        await self._context.store.catch_up(BUDGETS)
        records = self._context.store.collection(BUDGETS).view(f"{pod['metadata']['namespace']}/")
        found = [budget for budget in map(_decoded, records) if covers(budget, pod)]
        if len(found) > 1:
            message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
            raise ApiError(500, "", message)
        return found[0] if found else None

    def _spares(self, budget: Object) -> bool:
        """Return whether *budget* lets a pod go that is not ready, without counting it."""
        always = dig(budget, ("spec", "unhealthyPodEvictionPolicy")) == ALWAYS
        if always and self._settings.reads_unhealthy_policy:
            return True
        status = budget.get("status") or {}
        desired = status.get("desiredHealthy") or 0
        return 0 < desired <= (status.get("currentHealthy") or 0)

    async def _spend(self, budget: Object, pod: str, *, dry_run: bool) -> None:
        """Take one disruption from *budget*, for the pod of that name.

        :raises ApiError: 429 or 403, it has none to give.
        """
        name = budget["metadata"]["name"]

        def decide(current: Record | None) -> Outcome:
            if current is None:
                raise not_found("policy", "poddisruptionbudgets", name)
            found = _decoded(current)
            status = found.get("status") or {}
            allowed = status.get("disruptionsAllowed") or 0
            if (status.get("observedGeneration") or 0) < (found["metadata"].get("generation") or 0):
                raise _too_soon(name)
            if allowed < 0:
                raise forbidden("policy", "poddisruptionbudget", name, "pdb disruptions allowed is negative")
            disrupted = status.get("disruptedPods") or {}
            if len(disrupted) > _DISRUPTED_LIMIT:
                text = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
                raise forbidden("policy", "poddisruptionbudget", name, text)
            if not allowed:
                desired, current_count = status.get("desiredHealthy") or 0, status.get("currentHealthy") or 0
                raise _too_many(
                    f"The disruption budget {name} needs {desired} healthy pods and has {current_count} currently"
                )
            if dry_run:
                return Keep()
            status |= {"disruptionsAllowed": allowed - 1, "disruptedPods": {**disrupted, pod: objects.now()}}
            set_condition(status)
            return Put(objects.encode_for_store({**found, "status": status}))

        await self._context.store.update(BUDGETS, objects.key_of(budget["metadata"]["namespace"], name), decide)


class _Removal:
    """The deletion of one pod by an eviction request."""

    def __init__(
        self, context: VerbContext, request: Request, resource: Resource, given: Object, *, marks: bool
    ) -> None:
        self._context, self._resource, self._name = context, resource, request.info.name
        self._marks = marks
        self._key = objects.key_of(request.info.namespace, request.info.name)
        self._request, self._given = request, given
        self.dry_run = request.dry_run or bool(given.get("dryRun"))
        preconditions = given.get("preconditions") or {}
        self.own_version: bool = preconditions.get("resourceVersion") is not None
        policy = given.get("propagationPolicy")
        if not policy and (orphan := given.get("orphanDependents")) is not None:
            policy = "Orphan" if orphan else "Background"
        self._options: Object = {
            "gracePeriodSeconds": given.get("gracePeriodSeconds"),
            "preconditions": preconditions,
            "propagationPolicy": policy,
            "dryRun": self.dry_run,
        }

    def pod(self) -> Object:
        """Return the pod as it is now.

        :raises ApiError: 404.
        """
        record = self._context.store.collection(_PODS).get(self._key)
        if record is None:
            raise not_found("", "pods", self._name)
        found: Object = objects.decode(record.data)
        return found

    async def remove(self, pod: Object, *, unchanged: bool) -> None:
        """Mark and delete the pod, with *unchanged* only if it still equals *pod*.

        :raises ApiError: 404; 409 when it has changed or a precondition of the request does not hold; 422 for invalid
            options of the deletion.
        """
        validate_options(self._request, self._given, self._given.get("dryRun") or ())
        options = dict(self._options)
        if unchanged and not self.own_version:
            version = pod["metadata"]["resourceVersion"]
            options["preconditions"] = {**options["preconditions"], "resourceVersion": version}

        # Empty preconditions hold here; the deletion below still rejects an empty UID, as upstream's does.
        given = {member: value for member, value in options["preconditions"].items() if value}
        marking = {**options, "preconditions": given}

        def mark(current: Record | None) -> Outcome:
            if current is None:
                raise not_found("", "pods", self._name)
            found: Object = objects.decode(current.data)
            check_preconditions(self._resource, marking, found["metadata"])
            return Put(objects.encode_for_store(_marked(found)))

        if not self.dry_run and self._marks:
            record = await self._context.store.update(_PODS, self._key, mark)
            if options["preconditions"].get("resourceVersion") is not None:
                version = str(record.revision)
                options["preconditions"] = {**options["preconditions"], "resourceVersion": version}
        try:
            await remove(self._context, self._resource, self._key, self._name, options)
        except DryRun:
            return


def _read(request: Request) -> Object:
    """Return the eviction of the body, which older clients write in an older version.

    :raises ApiError: 400 or 415, the body is not an Eviction.
    """
    body = media.read_body(request.headers.get("Content-Type", ""), request.body, "Eviction", request.identity, [])
    old = body.get("apiVersion") == _OLD_VERSION
    found = read_object(request, "Eviction", _OLD_VERSION if old else _VERSION)
    return found | {"apiVersion": _VERSION}


def _does_not_run(pod: Object) -> bool:
    return "deletionTimestamp" in pod["metadata"] or dig(pod, ("status", "phase")) in (*_FINISHED, "Pending")


def _may_yet_run(pod: Object) -> bool:
    """Return whether *pod* may become one that a budget protects."""
    return "deletionTimestamp" not in pod["metadata"] and dig(pod, ("status", "phase")) == "Pending"


def _too_soon(budget: str) -> ApiError:
    return _too_many(f"The disruption budget {budget} is still being processed by the server.", _RETRY_SECONDS)


def _too_many(cause: str, retry_seconds: int = 0) -> ApiError:
    details: Object = {"causes": [{"reason": "DisruptionBudget", "message": cause}]}
    if retry_seconds:
        details["retryAfterSeconds"] = retry_seconds
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    return ApiError(429, "TooManyRequests", message, details)


def _marked(pod: Object) -> Object:
    status = pod.setdefault("status", {})
    conditions = status.get("conditions") or []
    old: Object = next((item for item in conditions if item.get("type") == "DisruptionTarget"), {})
    since = old.get("lastTransitionTime") if old.get("status") == "True" else None
    new = {
        "type": "DisruptionTarget",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": since or objects.now(),
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }
    status["conditions"] = [item for item in conditions if item is not old] + [new]
    return pod


def _decoded(record: Record) -> Object:
    found: Object = objects.decode(record.data)
    return found
