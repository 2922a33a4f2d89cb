"""Controller of resource claims: creates those of pods from templates, and releases those that no pod uses.

While a kube-controller-manager holds its lease, it is inactive.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

from apiserver_stub.apimachinery import device_versions, objects
from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.apimachinery.status import ApiError, quote
from apiserver_stub.controllers.change_feed import ChangeFeed
from apiserver_stub.controllers.devices.writes import DeviceNames, owner_reference, release_claim, reserve_claim
from apiserver_stub.controllers.event_recorder import EventRecorder
from apiserver_stub.controllers.internal_requests import create_object, delete_object
from apiserver_stub.controllers.leases import CONTROLLER_MANAGER, HELD_FOR, is_held
from apiserver_stub.controllers.loop import run_controller
from apiserver_stub.controllers.work_queue import WorkQueue
from apiserver_stub.scheduling.pod_claims import (
    PodClaim,
    claim_names,
    claims_of,
    is_owned_by,
    is_reserved_for,
)
from apiserver_stub.storage import Keep, Outcome, Put, Record
from nodeagent.base.aio import Clock, SystemClock
from nodeagent.base.identity import Identity

if TYPE_CHECKING:
    from apiserver_stub.kinds import Registry
    from apiserver_stub.kinds.registry import Resource
    from apiserver_stub.verbs.context import VerbContext

NAME = "resource-claim-controller"
_PODS = "core/pods"
_FINISHED = ("Succeeded", "Failed")
_GENERATED_LIMIT = 57
"""Longest base of a generated name that leaves space for a hyphen and the suffix in a DNS label."""
_USES_CLAIMS = (b'"resourceClaims"', b'"extendedResourceClaimStatus"')

Key = tuple[Literal["pod", "claim"], str]


def device_resources(registry: Registry, identity: Identity) -> Resource | None:
    """Return the latest served version of resource claims, ``None`` if none is served."""
    group = identity.group("resource")
    found = [registry.find(group, version, "resourceclaims") for version in ("v1", "v1beta2", "v1beta1")]
    return next((item for item in found if item is not None), None)


async def run_claim_controller(
    context: VerbContext, claims: Resource, identity: Identity, event_ttl_seconds: int | None
) -> None:
    """Run the controller until cancelled."""
    await ClaimController(context, claims, identity, event_ttl_seconds).run()


class ClaimController:
    """Controller of resource claims."""

    def __init__(
        self,
        context: VerbContext,
        claims: Resource,
        identity: Identity,
        event_ttl_seconds: int | None,
        clock: Clock | None = None,
    ) -> None:
        self._context, self._store, self._resource, self._identity = context, context.store, claims, identity
        self._names, self._clock = DeviceNames.of(identity), clock or SystemClock()
        self._queue: WorkQueue[Key] = WorkQueue("resource-claims", clock)
        self._pods: dict[str, tuple[frozenset[str], frozenset[str]]] = {}
        """Keys of the claims and of the templates that pods refer to."""
        self._owned: dict[str, dict[str, str]] = {}
        """Keys of generated claims by name in the pod, by the UID of the pod."""
        self._events = EventRecorder(context.store, NAME, event_ttl_seconds, identity, clock)

    async def run(self) -> None:
        feed = ChangeFeed(self._store, [self._names.templates, self._names.claims, _PODS], self)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._events.run())
            group.create_task(run_controller(feed, self._queue, self._process))

    # Changes

    def reset(self) -> None:
        self._pods.clear()
        self._owned.clear()

    def see(self, collection: str, record: Record, previous: Record | None) -> None:
        if collection == self._names.templates:
            self._queue_pods(record.key, part=1)
        elif collection == self._names.claims:
            self._own(objects.decode(record.data), record.key)
            self._queue.add(("claim", record.key))
            self._queue_pods(record.key, part=0)
        elif record.key in self._pods or any(name in record.data for name in _USES_CLAIMS):
            self._see_pod(record.key, objects.decode(record.data))

    def remove(self, collection: str, record: Record) -> None:
        if collection == self._names.claims:
            self._disown(objects.decode(record.data))
            self._queue_pods(record.key, part=0)
        elif collection == _PODS and record.key in self._pods:
            claims, _ = self._pods.pop(record.key)
            self._queue_claims(claims)

    def _see_pod(self, key: str, pod: Object) -> None:
        namespace = pod["metadata"]["namespace"]
        claims = frozenset(objects.key_of(namespace, name) for name in claim_names(pod))
        templates = frozenset(objects.key_of(namespace, item.template) for item in claims_of(pod) if item.template)
        before, _ = self._pods.get(key, (frozenset(), frozenset()))
        self._pods[key] = claims, templates
        self._queue_claims(claims | before if is_done(pod) else before - claims)
        self._queue.add(("pod", key))

    def _queue_claims(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._queue.add(("claim", key))

    def _queue_pods(self, key: str, part: Literal[0, 1]) -> None:
        for pod, references in self._pods.items():
            if key in references[part]:
                self._queue.add(("pod", pod))

    def _own(self, claim: Object, key: str) -> None:
        if owner := self._owner_of(claim):
            uid, name = owner
            self._owned.setdefault(uid, {}).setdefault(name, key)

    def _disown(self, claim: Object) -> None:
        if owner := self._owner_of(claim):
            uid, name = owner
            owned = self._owned.get(uid, {})
            owned.pop(name, None)
            if not owned:
                self._owned.pop(uid, None)

    def _owner_of(self, claim: Object) -> tuple[str, str] | None:
        """Return the UID of the pod that owns *claim*, and the name of the claim in that pod."""
        name = (claim["metadata"].get("annotations") or {}).get(self._names.pod_claim)
        owner = _controller_of(claim)
        return (owner["uid"], name) if owner and name else None

    # Pods

    async def _process(self, key: Key) -> None:
        if is_held(self._store, CONTROLLER_MANAGER, self._clock.wall(), self._identity):
            self._queue.add_after(key, HELD_FOR.total_seconds())
            return
        kind, name = key
        await (self._process_pod(name) if kind == "pod" else self._process_claim(name))

    async def _process_pod(self, key: str) -> None:
        pod = self._read(_PODS, key)
        if pod is None or "deletionTimestamp" in pod["metadata"] or is_done(pod):
            return
        created: dict[str, str] = {}
        for entry in claims_of(pod):
            if entry.template and (name := await self._provide(pod, entry)):
                created[entry.name] = name
        if created:
            await self._report(key, pod, created)
        if not dig(pod, ("spec", "nodeName")):
            return  # The scheduler reserves the claims.
        for name in claim_names(pod):
            claim = self._claim(pod["metadata"]["namespace"], name)
            if claim is not None and not is_reserved_for(claim, pod["metadata"]["uid"]):
                await reserve_claim(self._store, self._names, claim, pod)

    async def _provide(self, pod: Object, entry: PodClaim) -> str:
        """Create the claim of *entry*, unless it exists; return its name if the status of the pod lacks it.

        :raises ApiError: it cannot be created.
        """
        metadata = pod["metadata"]
        namespace, uid = metadata["namespace"], metadata["uid"]
        if entry.claim == "":
            return ""  # The pod does not need it.
        if entry.claim is not None:
            claim = self._claim(namespace, entry.claim)
            if claim is not None and is_owned_by(claim, uid):
                return ""
        existing = self._owned.get(uid, {}).get(entry.name)
        if existing is not None:
            return existing.rpartition("/")[2]
        try:
            return await self._create(pod, entry)
        except ApiError as error:
            note = f"PodResourceClaim {entry.name}: {error.message}"
            self._events.record(pod, "Warning", "FailedResourceClaimCreation", "FailedResourceClaimCreation", note)
            if error.reason == "NotFound":
                return ""  # The pod is queued when the template is created.
            raise

    async def _create(self, pod: Object, entry: PodClaim) -> str:
        metadata = pod["metadata"]
        key = objects.key_of(metadata["namespace"], entry.template)
        template = self._read(self._names.templates, key)
        if template is None:
            resource = f"resourceclaimtemplate.{self._names.group}"
            text = f"resource claim template {quote(entry.template)}: {resource} {quote(entry.template)} not found"
            raise ApiError(404, "NotFound", text, {})
        spec = device_versions.structured(template)["spec"]
        of_template = spec.get("metadata") or {}
        name = generated_base(metadata["name"], entry.name) + objects.name_suffix()
        claim: Object = {
            "kind": "ResourceClaim",
            "metadata": {
                "name": name,
                "generateName": generated_base(metadata["name"], entry.name),
                "namespace": metadata["namespace"],
                **({"labels": of_template["labels"]} if of_template.get("labels") else {}),
                "annotations": {**(of_template.get("annotations") or {}), self._names.pod_claim: entry.name},
                "ownerReferences": [owner_reference(pod)],
            },
            "spec": spec.get("spec") or {},
        }
        if self._resource.version == device_versions.FLAT:
            claim = device_versions.flattened(claim, "ResourceClaim")
        await create_object(self._context, self._resource, claim, self._identity, NAME)
        self._owned.setdefault(metadata["uid"], {})[entry.name] = objects.key_of(metadata["namespace"], name)
        return name

    async def _report(self, key: str, seen: Object, created: dict[str, str]) -> None:
        """Record the names of created claims in the status of a pod."""

        def edit(current: Record | None) -> Outcome:
            pod: Object | None = None if current is None else objects.decode(current.data)
            if pod is None or pod["metadata"].get("uid") != seen["metadata"]["uid"]:
                return Keep()
            status = pod.get("status") or {}
            kept = [item for item in status.get("resourceClaimStatuses") or () if item.get("name") not in created]
            added = [{"name": name, "resourceClaimName": claim} for name, claim in created.items()]
            return Put(objects.encode_for_store({**pod, "status": {**status, "resourceClaimStatuses": kept + added}}))

        await self._store.update(_PODS, key, edit)

    # Claims

    async def _process_claim(self, key: str) -> None:
        claim = self._read(self._names.claims, key)
        if claim is None:
            return
        namespace = claim["metadata"]["namespace"]
        claim = await release_claim(self._store, self._names, claim, lambda item: self._is_consumer(namespace, item))
        if claim is None or "deletionTimestamp" in claim["metadata"] or dig(claim, ("status", "reservedFor")):
            return
        owner = _controller_of(claim)
        if owner is None:
            return
        # Without the pod, the garbage collector deletes the claim.
        pod = self._read(_PODS, objects.key_of(namespace, owner["name"]))
        if pod is not None and (pod["metadata"]["uid"] != owner["uid"] or is_done(pod)):
            try:
                await delete_object(self._context, self._resource, claim, self._identity, NAME)
            except ApiError as error:
                if error.reason not in ("NotFound", "Conflict"):
                    raise

    def _is_consumer(self, namespace: str, reference: Object) -> bool:
        """Return whether the object of *reference* may still use the claim."""
        if reference.get("apiGroup") or reference.get("resource") != "pods":
            return True
        pod = self._read(_PODS, objects.key_of(namespace, reference.get("name") or ""))
        return pod is not None and pod["metadata"]["uid"] == reference.get("uid") and not is_done(pod)

    def _claim(self, namespace: str, name: str) -> Object | None:
        return self._read(self._names.claims, objects.key_of(namespace, name))

    def _read(self, collection: str, key: str) -> Object | None:
        record = self._store.collection(collection).get(key)
        return None if record is None else objects.decode(record.data)


def is_done(pod: Object) -> bool:
    """Return whether *pod* will not run any more."""
    if dig(pod, ("status", "phase")) in _FINISHED:
        return True
    return "deletionTimestamp" in pod["metadata"] and not dig(pod, ("spec", "nodeName"))


def generated_base(pod: str, claim: str) -> str:
    """Return the base of the name of a claim; long names of pod and claim are shortened in proportion."""
    base = f"{pod}-{claim}-"
    if len(base) <= _GENERATED_LIMIT:
        return base
    first = pod[: len(pod) * _GENERATED_LIMIT // len(base)]
    return f"{first}-{claim[: len(claim) * _GENERATED_LIMIT // len(base)]}"


def _controller_of(claim: Object) -> Object | None:
    """Return the reference of *claim* to the pod that it was generated for."""
    for owner in claim["metadata"].get("ownerReferences") or ():
        if owner.get("controller") and owner.get("apiVersion") == "v1" and owner.get("kind") == "Pod":
            found: Object = owner
            return found
    return None
