"""StatefulSet controller: pods with stable names and claims, created, updated and deleted in order."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import ClassVar

import msgspec

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.controllers.plugin import ControllerContext
from apiserver_stub.controllers.views import FINISHED, OwnerView, PodView, View
from apiserver_stub.controllers.workloads.owner_controller import OwnerController
from apiserver_stub.controllers.workloads.owners import Claims, controller_ref, seen
from apiserver_stub.controllers.workloads.pod_writer import MAX_PODS, is_terminating, pod_of
from apiserver_stub.controllers.workloads.revisions import HASH_LABEL, REVISIONS, History, template_of
from apiserver_stub.controllers.workloads.semantic import scaled

_PODS, _CLAIMS = "core/pods", "core/persistentvolumeclaims"
_ORDINAL = re.compile(r"(.*)-(0|[1-9]\d*)")
_ROLLING, _PARALLEL, _DELETE = "RollingUpdate", "Parallel", "Delete"
_OF_COMPLETE = ("replicas", "readyReplicas", "updatedReplicas")
"""Counts that are the desired one when an update is complete."""
_decode_view = msgspec.json.Decoder(View).decode


class StatefulSets(OwnerController):
    """StatefulSets."""

    name, alias, kind = "statefulset-controller", "statefulset", "StatefulSet"
    owners = ("apps", "v1", "statefulsets")
    dependents = (_PODS,)
    resources = ("statefulsets.apps", "controllerrevisions.apps")
    views: ClassVar[Mapping[str, type[View]]] = {"apps/statefulsets": OwnerView, _PODS: PodView, REVISIONS: View}

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        identity = context.identity
        self._pods = self.writer.resource("", "v1", "pods")
        self._claims_resource = self.writer.resource("", "v1", "persistentvolumeclaims")
        self._pod_claims = Claims(context.index, self.writer, self._pods)
        self._history = History(context.verbs.store, context.index, self.writer, identity.label("hash", "controller"))
        self._name_label = identity.label("pod-name", "statefulset")
        self._index_label = identity.label("pod-index", "apps")

    async def sync(self, owner: Object) -> None:
        selector = self.selector_of(owner["spec"])
        if selector is None:
            return
        pods: list[PodView] = await self._pod_claims.claim(
            owner, selector, lambda pod: ordinal_of(owner, pod.metadata.name) is not None
        )
        revisions = await self._history.read(owner, selector)
        deleting = "deletionTimestamp" in owner["metadata"]
        if deleting and not revisions:
            return
        update = await self._history.current(owner, revisions)
        name = (owner.get("status") or {}).get("currentRevision")
        current = next((item for item in revisions if item["metadata"]["name"] == name), update)
        if deleting:
            await self._write_status(owner, current, update)
            return
        try:
            await self._reconcile(owner, pods, current, update)
        except ApiError as error:
            if is_terminating(error):
                return
            await self._write_status(owner, current, update)
            raise
        status = await self._write_status(owner, current, update)
        seconds = owner["spec"].get("minReadySeconds") or 0
        if seconds and status["availableReplicas"] != (owner["spec"].get("replicas") or 0):
            self._wait(owner, seconds)
        limit = owner["spec"].get("revisionHistoryLimit")
        live = [current["metadata"]["name"], update["metadata"]["name"], *map(revision_name, pods)]
        await self._history.delete_old(revisions, live, 10 if limit is None else limit)

    async def _reconcile(self, owner: Object, pods: Sequence[PodView], current: Object, update: Object) -> None:
        """Make the next changes of the pods, at most one with the policy OrderedReady.

        :raises ApiError: a pod or a claim cannot be created or deleted.
        """
        spec = owner["spec"]
        monotonic, now = spec.get("podManagementPolicy") != _PARALLEL, self.context.clock.wall()
        seconds = spec.get("minReadySeconds") or 0
        by_ordinal = {_ordinal(pod): pod for pod in pods}
        first = (spec.get("ordinals") or {}).get("start") or 0
        valid = range(first, first + (spec.get("replicas") or 0))
        writes = 0
        for ordinal in valid:
            pod = by_ordinal.get(ordinal)
            if pod is not None and pod.status.phase in FINISHED:
                if not pod.deleting:
                    self._report_recreation(owner, pod)
                    await self._delete(owner, pod)
                    writes += 1
                if monotonic:
                    return
                continue
            if pod is None:
                if self._has_stale_claim(owner, ordinal):
                    self._wait(owner, 1)  # It is deleted with the former pod.
                    return
                await self._create(owner, ordinal, current, update)
                writes += 1
                if monotonic:
                    return
                if writes >= MAX_PODS:
                    break
                continue
            if pod.status.phase == "Pending":
                await self._create_claims(owner, pod.metadata.name, ordinal)
            if monotonic and (pod.deleting or not _is_available(pod, seconds, now)):
                return
            await self._set_identity(owner, pod, ordinal)
            await self._own_claims(owner, pod, ordinal, condemned=False)
        condemned = sorted((item for item in by_ordinal if item not in valid), reverse=True)
        for ordinal in condemned:
            pod = by_ordinal[ordinal]
            if not pod.deleting:
                await self._own_claims(owner, pod, ordinal, condemned=True)
                await self._delete(owner, pod)
            if monotonic:
                return
        strategy = spec.get("updateStrategy") or {}
        if strategy.get("type") != _ROLLING or writes:
            return
        await self._update(owner, [by_ordinal[item] for item in valid if item in by_ordinal], first, update, now)

    async def _update(self, owner: Object, pods: Sequence[PodView], first: int, update: Object, now: datetime) -> None:
        """Delete pods with an old template, the last first.

        Without a limit, one at a time, while the pods with higher ordinals are healthy; otherwise as many as may be
        unavailable.
        """
        spec = owner["spec"]
        rolling = (spec.get("updateStrategy") or {}).get("rollingUpdate") or {}
        limit = rolling.get("maxUnavailable")
        most = 1 if limit is None else max(1, scaled(limit, spec.get("replicas") or 0, up=True))
        seconds, partition = spec.get("minReadySeconds") or 0, rolling.get("partition") or 0
        healthy = {pod.key: not pod.deleting and _is_available(pod, seconds, now) for pod in pods}
        unavailable = 0 if limit is None else len(pods) - sum(healthy.values())
        for pod in sorted(pods, key=_ordinal, reverse=True):
            if _ordinal(pod) < first + partition:
                return
            if revision_name(pod) != update["metadata"]["name"] and not pod.deleting:
                if healthy[pod.key] and unavailable >= most:
                    return
                await self._delete(owner, pod)
                unavailable += healthy[pod.key]
            if unavailable >= most or (limit is None and not healthy[pod.key]):
                return

    def _wait(self, owner: Object, seconds: float) -> None:
        metadata = owner["metadata"]
        self.queue.add_after(self.owner.key(metadata["namespace"], metadata["name"]), max(1.0, seconds))

    async def _create(self, owner: Object, ordinal: int, current: Object, update: Object) -> None:
        """Create the claims of a pod, then the pod.

        :raises ApiError: one of them is rejected.
        """
        set_name, name = owner["metadata"]["name"], f"{owner['metadata']['name']}-{ordinal}"
        try:
            await self._create_claims(owner, name, ordinal)
            await self.writer.create(self._pods, self._pod(owner, name, ordinal, current, update))
        except ApiError as error:
            if error.reason == "AlreadyExists":
                return  # Not ours, or not visible yet: the next change of the pod is processed.
            text = f"create Pod {name} in StatefulSet {set_name} failed error: {error.message}"
            self.events.record(owner, "Warning", "FailedCreate", "", text)
            raise
        text = f"create Pod {name} in StatefulSet {set_name} successful"
        self.events.record(owner, "Normal", "SuccessfulCreate", "", text)

    def _pod(self, owner: Object, name: str, ordinal: int, current: Object, update: Object) -> Object:
        spec = owner["spec"]
        strategy, first = spec.get("updateStrategy") or {}, (spec.get("ordinals") or {}).get("start") or 0
        rolling = strategy.get("rollingUpdate")
        if rolling is None:
            kept = (owner.get("status") or {}).get("currentReplicas") or 0 if strategy.get("type") == _ROLLING else 0
        else:
            kept = rolling.get("partition") or 0
        revision = current if ordinal < first + kept else update
        pod = pod_of(owner, template_of(revision), name=name)
        labels = {**(pod["metadata"].get("labels") or {}), self._name_label: name, self._index_label: str(ordinal)}
        pod["metadata"]["labels"] = {**labels, HASH_LABEL: revision["metadata"]["name"]}
        pod["spec"]["hostname"] = name
        if spec.get("serviceName"):
            pod["spec"]["subdomain"] = spec["serviceName"]
        templates = {item["metadata"]["name"]: item for item in spec.get("volumeClaimTemplates") or ()}
        volumes = [item for item in pod["spec"].get("volumes") or () if item.get("name") not in templates]
        for template in templates:
            source = {"claimName": claim_name(template, owner, ordinal)}
            volumes.append({"name": template, "persistentVolumeClaim": source})
        if volumes:
            pod["spec"]["volumes"] = volumes
        return pod

    async def _create_claims(self, owner: Object, pod: str, ordinal: int) -> None:
        spec, namespace = owner["spec"], owner["metadata"]["namespace"]
        policy = spec.get("persistentVolumeClaimRetentionPolicy") or {}
        for template in spec.get("volumeClaimTemplates") or ():
            name = claim_name(template["metadata"]["name"], owner, ordinal)
            existing = self.context.verbs.store.collection(_CLAIMS).get(objects.key_of(namespace, name))
            if existing is not None:
                if _decode_view(existing.data).deleting:
                    raise ApiError(409, "Conflict", f"pvc {name} is being deleted")
                continue
            metadata = {key: value for key, value in template["metadata"].items() if key in ("labels", "annotations")}
            labels = {**(metadata.get("labels") or {}), **((spec.get("selector") or {}).get("matchLabels") or {})}
            claim: Object = {
                "metadata": {**metadata, "labels": labels, "name": name, "namespace": namespace},
                "spec": objects.clone(template.get("spec") or {}),
            }
            if policy.get("whenDeleted") == _DELETE:
                claim["metadata"]["ownerReferences"] = [_plain_reference(controller_ref(owner))]
            set_name = owner["metadata"]["name"]
            try:
                await self.writer.create(self._claims_resource, claim)
            except ApiError as error:
                text = f"create Claim {name} for Pod {pod} in StatefulSet {set_name} failed error: {error.message}"
                self.events.record(owner, "Warning", "FailedCreate", "", text)
                raise
            text = f"create Claim {name} Pod {pod} in StatefulSet {set_name} success"
            self.events.record(owner, "Normal", "SuccessfulCreate", "", text)

    async def _own_claims(self, owner: Object, pod: PodView, ordinal: int, *, condemned: bool) -> None:
        """Make the set, or the pod that is scaled down, the owner of the claims that are to be deleted with it."""
        spec, metadata = owner["spec"], owner["metadata"]
        policy = spec.get("persistentVolumeClaimRetentionPolicy")
        if policy is None:
            return
        uids, reference = (metadata["uid"], pod.metadata.uid), None
        if condemned and policy.get("whenScaled") == _DELETE:
            reference = {"apiVersion": "v1", "kind": "Pod", "name": pod.metadata.name, "uid": pod.metadata.uid}
        elif policy.get("whenDeleted") == _DELETE:
            reference = _plain_reference(controller_ref(owner))

        def edit(obj: Object) -> None:
            others = [item for item in obj["metadata"].get("ownerReferences") or () if item.get("uid") not in uids]
            obj["metadata"]["ownerReferences"] = [*others, *([reference] if reference else [])]

        expected = {reference["uid"]} if reference else set()
        for view in self._claims_of(owner, ordinal):
            if {item.uid for item in view.metadata.owner_references or ()} & set(uids) != expected:
                await self.writer.change(self._claims_resource, seen(view), edit)

    def _has_stale_claim(self, owner: Object, ordinal: int) -> bool:
        """Return whether a claim of a missing pod is deleted with the former pod of its name."""
        name = f"{owner['metadata']['name']}-{ordinal}"
        return any(
            (item.kind, item.name) == ("Pod", name)
            for view in self._claims_of(owner, ordinal)
            for item in view.metadata.owner_references or ()
        )

    def _claims_of(self, owner: Object, ordinal: int) -> Iterator[View]:
        """Yield the existing claims of a pod."""
        for template in owner["spec"].get("volumeClaimTemplates") or ():
            name = claim_name(template["metadata"]["name"], owner, ordinal)
            key = objects.key_of(owner["metadata"]["namespace"], name)
            record = self.context.verbs.store.collection(_CLAIMS).get(key)
            if record is not None:
                yield _decode_view(record.data)

    async def _set_identity(self, owner: Object, pod: PodView, ordinal: int) -> None:
        """Restore the labels with the name and ordinal of *pod*, if the former was changed."""
        name, set_name = pod.metadata.name, owner["metadata"]["name"]
        if (pod.metadata.labels or {}).get(self._name_label) == name:
            return

        def edit(obj: Object) -> None:
            labels = {self._name_label: name, self._index_label: str(ordinal)}
            obj["metadata"]["labels"] = {**(obj["metadata"].get("labels") or {}), **labels}

        if await self.writer.change(self._pods, seen(pod), edit) is not None:
            text = f"update Pod {name} in StatefulSet {set_name} successful"
            self.events.record(owner, "Normal", "SuccessfulUpdate", "", text)

    def _report_recreation(self, owner: Object, pod: PodView) -> None:
        metadata, failed = owner["metadata"], pod.status.phase == "Failed"
        kind, reason = ("Warning", "RecreatingFailedPod") if failed else ("Normal", "RecreatingTerminatedPod")
        subject, state = f"{metadata['namespace']}/{metadata['name']}", "failed" if failed else "terminated"
        text = f"StatefulSet {subject} is recreating {state} Pod {pod.metadata.name}"
        self.events.record(owner, kind, reason, "", text)

    async def _delete(self, owner: Object, pod: PodView) -> None:
        name, set_name = pod.metadata.name, owner["metadata"]["name"]
        try:
            deleted = await self.writer.delete(self._pods, seen(pod)["metadata"])
        except ApiError as error:
            text = f"delete Pod {name} in StatefulSet {set_name} failed error: {error.message}"
            self.events.record(owner, "Warning", "FailedDelete", "", text)
            raise
        if deleted:
            text = f"delete Pod {name} in StatefulSet {set_name} successful"
            self.events.record(owner, "Normal", "SuccessfulDelete", "", text)

    async def _write_status(self, owner: Object, current: Object, update: Object) -> Object:
        """Write the status of *owner*, unless it is unchanged, and return it."""
        index = self.context.index
        await index.catch_up()
        owned = index.owned(_PODS, owner["metadata"]["uid"])
        latest = [pod for pod in owned if ordinal_of(owner, pod.metadata.name) is not None]
        status = set_status(owner, latest, current, update, self.context.clock.wall())
        if status == owner.get("status"):
            return status

        def edit(obj: Object) -> None:
            obj["status"] = {**status, **_kept(obj.get("status") or {})}

        await self.writer.change(self.owner, owner, edit)
        return status


def _kept(status: Object) -> Object:
    return {name: status[name] for name in ("collisionCount", "conditions") if name in status}


def set_status(owner: Object, pods: Sequence[PodView], current: Object, update: Object, now: datetime) -> Object:
    """Return the status of *owner* with *pods*."""
    spec, before = owner["spec"], owner.get("status") or {}
    names = current["metadata"]["name"], update["metadata"]["name"]
    alive = [pod for pod in pods if not pod.deleting]
    counts = {
        "replicas": len(pods),
        "readyReplicas": sum(_is_running(pod) for pod in pods),
        "currentReplicas": sum(revision_name(pod) == names[0] for pod in alive),
        "updatedReplicas": sum(revision_name(pod) == names[1] for pod in alive),
        "availableReplicas": sum(_is_available(pod, spec.get("minReadySeconds") or 0, now) for pod in pods),
    }
    is_rolling = (spec.get("updateStrategy") or {}).get("type") == _ROLLING
    if is_rolling and {counts[name] for name in _OF_COMPLETE} == {spec.get("replicas") or 0}:
        names = names[1], names[1]
        counts["currentReplicas"] = counts["updatedReplicas"]
    status: Object = {}
    if generation := owner["metadata"].get("generation"):
        status["observedGeneration"] = generation
    required = ("replicas", "availableReplicas")
    status |= {name: count for name, count in counts.items() if count or name in required}
    status |= {"currentRevision": names[0], "updateRevision": names[1]}
    return {**status, **_kept({"collisionCount": 0, **before})}


def ordinal_of(owner: Object, pod: str) -> int | None:
    """Return the ordinal of *pod*, ``None`` if its name is not that of a pod of *owner*."""
    match = _ORDINAL.fullmatch(pod)
    return int(match[2]) if match is not None and match[1] == owner["metadata"]["name"] else None


def claim_name(template: str, owner: Object, ordinal: int) -> str:
    """Return the name of the claim of a pod."""
    return f"{template}-{owner['metadata']['name']}-{ordinal}"


def revision_name(pod: PodView) -> str:
    """Return the revision of *pod*."""
    return (pod.metadata.labels or {}).get(HASH_LABEL, "")


def _plain_reference(reference: Object) -> Object:
    return {name: reference[name] for name in ("apiVersion", "kind", "name", "uid")}


def _is_running(pod: PodView) -> bool:
    return pod.status.phase == "Running" and pod.ready


def _is_available(pod: PodView, seconds: int, now: datetime) -> bool:
    return pod.status.phase == "Running" and pod.available(seconds, now)


def _ordinal(pod: PodView) -> int:
    return int(pod.metadata.name.rpartition("-")[2])
