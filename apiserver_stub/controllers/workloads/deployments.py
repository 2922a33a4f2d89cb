"""Deployment controller: a ReplicaSet per template, scaled up and down by the strategy of the Deployment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.controllers.plugin import ControllerContext
from apiserver_stub.controllers.views import FINISHED, OwnerView, PodView, View
from apiserver_stub.controllers.workloads import conditions
from apiserver_stub.controllers.workloads import deployment_rollout as rollout
from apiserver_stub.controllers.workloads.deployment_rollout import HASH_LABEL, AnnotationNames
from apiserver_stub.controllers.workloads.owner_controller import OwnerController
from apiserver_stub.controllers.workloads.owners import Claims, controller_ref
from apiserver_stub.controllers.workloads.pod_writer import is_terminating
from apiserver_stub.controllers.workloads.semantic import same, short_hash

_SETS, _PODS = "apps/replicasets", "core/pods"


class Deployments(OwnerController):
    """Deployments."""

    name, alias, kind = "deployment-controller", "deployment", "Deployment"
    owners = ("apps", "v1", "deployments")
    dependents = (_SETS,)
    resources = ("deployments.apps", "replicasets.apps")
    views: ClassVar[Mapping[str, type[View]]] = {"apps/deployments": OwnerView, _SETS: OwnerView, _PODS: PodView}

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._sets = self.writer.resource("apps", "v1", "replicasets")
        self._claims = Claims(context.index, self.writer, self._sets)
        self._names = AnnotationNames.of(context.identity)
        context.index.listen(_PODS, self._pod_changed)

    def _pod_changed(self, before: View | None, after: View | None) -> None:
        """Queue the Deployment of a deleted pod, whose strategy may wait for the deletion."""
        if after is not None or before is None or (owner := before.controller) is None or owner.kind != "ReplicaSet":
            return
        above = self.context.index.get(_SETS, f"{before.metadata.namespace}/{owner.name}")
        if above is not None and (reference := above.controller) is not None and reference.kind == self.kind:
            self.queue.add(f"{before.metadata.namespace}/{reference.name}")

    async def sync(self, owner: Object) -> None:
        spec = owner["spec"]
        selector = self.selector_of(spec)
        if not selector:
            text = "This deployment is selecting all pods. A non-empty selector is required."
            self.events.record(owner, "Warning", "SelectingAll", "", text)
            return
        views = await self._claims.claim(owner, selector)
        sets = [found for view in views if (found := self._read(view)) is not None]
        if "deletionTimestamp" in owner["metadata"]:
            await self._write_status(owner, sets, rollout.find_new(owner, sets), rollout.status_of)
            return
        owner = await self._check_paused(owner)
        if spec.get("paused") or rollout.is_scaled(owner, sets, self._names):
            await self._resize(owner, sets)
        elif (spec.get("strategy") or {}).get("type") == rollout.ROLLING:
            await self._roll(owner, sets)
        else:
            await self._recreate(owner, sets)

    async def _roll(self, owner: Object, sets: Sequence[Object]) -> None:
        """Scale up the new ReplicaSet if possible, otherwise scale down the old ones."""
        owner, new, old = await self._with_new(owner, sets, create=True)
        if new is None:
            return
        everything = [*old, new]
        desired, size = rollout.replicas(owner), rollout.replicas(new)
        target = min(desired, rollout.new_size(owner, everything, size))
        if target != size:
            new = await self._scale(owner, new, target)
            await self._write_status(owner, [*old, new], new, rollout.rollout_status)
            return
        changes = rollout.old_sizes(owner, old, new)
        for item, target in changes:
            await self._scale(owner, item, target)
        if not changes and rollout.is_complete(owner, owner.get("status") or {}):
            await self._delete_history(owner, old)
        await self._write_status(owner, [*old, new], new, rollout.rollout_status)

    async def _recreate(self, owner: Object, sets: Sequence[Object]) -> None:
        """Delete all old pods before the new ReplicaSet gets any."""
        owner, new, old = await self._with_new(owner, sets, create=False)
        due = rollout.active(old)
        if due:
            for item in due:
                await self._scale(owner, item, 0)
            await self._write_status(owner, [*old, *([new] if new else [])], new, rollout.rollout_status)
            return
        if self._has_old_pods(old):
            await self._write_status(owner, [*old, *([new] if new else [])], new, rollout.rollout_status)
            return
        if new is None:
            owner, new, old = await self._with_new(owner, sets, create=True)
        if new is None:
            return
        new = await self._scale(owner, new, rollout.replicas(owner))
        if rollout.is_complete(owner, owner.get("status") or {}):
            await self._delete_history(owner, old)
        await self._write_status(owner, [*old, new], new, rollout.rollout_status)

    def _has_old_pods(self, old: Sequence[Object]) -> bool:
        if rollout.counted(old, "replicas"):
            return True
        pods = (pod for item in old for pod in self.context.index.owned(_PODS, item["metadata"]["uid"]))
        return any(pod.status.phase not in FINISHED for pod in pods)

    async def _resize(self, owner: Object, sets: Sequence[Object]) -> None:
        """Scale the ReplicaSets of a Deployment that is paused or whose size has changed; start no rollout."""
        owner, new, old = await self._with_new(owner, sets, create=False)
        everything = [*old, *([new] if new else [])]
        desired = rollout.replicas(owner)
        active = rollout.active(everything)
        sizes: list[tuple[Object, int]] = []
        if len(active) <= 1:
            newest = new or max(old, key=rollout.created_order, default=None)
            only = active[0] if active else newest
            sizes = [(only, desired)] if only is not None else []
        elif new is not None and self._is_saturated(owner, new):
            sizes = [(item, 0) for item in rollout.active(old)]
        elif (owner["spec"].get("strategy") or {}).get("type") == rollout.ROLLING:
            sizes = rollout.proportional_sizes(owner, everything, self._names)
        for item, size in sizes:
            scaled = await self._scale(owner, item, size)
            everything = [scaled if other is item else other for other in everything]
            new = scaled if item is new else new
        if owner["spec"].get("paused"):
            await self._delete_history(owner, [item for item in everything if item is not new])
        await self._write_status(owner, everything, new, rollout.status_of)

    def _is_saturated(self, owner: Object, new: Object) -> bool:
        annotations, desired = new["metadata"].get("annotations") or {}, rollout.replicas(owner)
        annotated = annotations.get(self._names.desired) == str(desired)
        return annotated and rollout.replicas(new) == rollout.counted([new], "availableReplicas") == desired

    async def _with_new(
        self, owner: Object, sets: Sequence[Object], *, create: bool
    ) -> tuple[Object, Object | None, list[Object]]:
        """Return *owner*, the ReplicaSet with its template, and the others; the first two with current revisions.

        :param create: create the ReplicaSet if there is none.
        :raises ApiError: it cannot be created.
        """
        new = rollout.find_new(owner, sets)
        old = [item for item in sets if item is not new]
        revision = max((rollout.revision_of(item, self._names) for item in old), default=0) + 1
        now = self.context.clock.wall()
        if new is not None:
            new = await self._annotate(owner, new, revision)
            known = conditions.find((owner.get("status") or {}).get("conditions"), "Progressing")
            progress = None
            if known is None and rollout.has_deadline(owner):
                text = f'Found new replica set "{new["metadata"]["name"]}"'
                progress = rollout.condition("Progressing", "True", rollout.FOUND, text, now)
            number = (new["metadata"].get("annotations") or {}).get(self._names.revision)
            return await self._set_revision(owner, number, progress), new, old
        if not create:
            return owner, None, old
        new = await self._create(owner, old, revision)
        progress = None
        if rollout.has_deadline(owner):
            text = f'Created new replica set "{new["metadata"]["name"]}"'
            progress = rollout.condition("Progressing", "True", rollout.CREATED, text, now)
        return await self._set_revision(owner, str(revision), progress), new, old

    async def _annotate(self, owner: Object, new: Object, revision: int) -> Object:
        """Update the annotations and ``minReadySeconds`` of the new ReplicaSet."""
        seconds = owner["spec"].get("minReadySeconds") or 0

        def edit(obj: Object) -> None:
            metadata = obj["metadata"]
            annotations = metadata.get("annotations")
            metadata["annotations"] = rollout.annotate_new(owner, annotations, revision, self._names, exists=True)
            if (obj["spec"].get("minReadySeconds") or 0) != seconds:
                obj["spec"]["minReadySeconds"] = seconds

        return await self._change_set(new, edit)

    async def _create(self, owner: Object, old: Sequence[Object], revision: int) -> Object:
        """Create the ReplicaSet with the current template.

        :raises ApiError: it is rejected, or another object has its name.
        """
        spec, metadata = owner["spec"], owner["metadata"]
        template: Object = objects.clone(spec.get("template") or {})
        digest = short_hash(template, (owner.get("status") or {}).get("collisionCount"))
        labels = {**((template.get("metadata") or {}).get("labels") or {}), HASH_LABEL: digest}
        template["metadata"] = {**(template.get("metadata") or {}), "labels": labels}
        selector = objects.clone(spec["selector"])
        selector["matchLabels"] = {**(selector.get("matchLabels") or {}), HASH_LABEL: digest}
        count = rollout.new_size(owner, old, 0)
        new: Object = {
            "metadata": {
                "name": f"{metadata['name']}-{digest}",
                "namespace": metadata["namespace"],
                "labels": labels,
                "annotations": rollout.annotate_new(owner, None, revision, self._names, exists=False),
                "ownerReferences": [controller_ref(owner)],
            },
            "spec": {
                "replicas": count,
                "minReadySeconds": spec.get("minReadySeconds") or 0,
                "selector": selector,
                "template": template,
            },
        }
        try:
            created = await self.writer.create(self._sets, new)
        except ApiError as error:
            if error.reason == "AlreadyExists":
                return await self._resolve_collision(owner, new, error)
            if not is_terminating(error):
                await self._report_failure(owner, new["metadata"]["name"], error)
            raise
        if count:
            text = f"Scaled up replica set {created['metadata']['name']} to {count}"
            self.events.record(owner, "Normal", "ScalingReplicaSet", "", text)
        return created

    async def _resolve_collision(self, owner: Object, new: Object, error: ApiError) -> Object:
        """Return the existing ReplicaSet if it is that of *owner*; otherwise select another name for the next pass."""
        key = self._sets.key(new["metadata"]["namespace"], new["metadata"]["name"])
        record = self.context.verbs.store.collection(self._sets.storage).get(key)
        found = self._sets.read(record) if record is not None else None
        if found is not None:
            owners = found["metadata"].get("ownerReferences") or ()
            is_owned = any(item.get("controller") and item.get("uid") == owner["metadata"]["uid"] for item in owners)
            templates = [rollout.without_hash(item["spec"].get("template") or {}) for item in (found, owner)]
            if is_owned and same(*templates):
                return found

        def edit(obj: Object) -> None:
            status = obj.setdefault("status", {})
            status["collisionCount"] = (status.get("collisionCount") or 0) + 1

        await self.writer.change(self.owner, owner, edit)
        raise error

    async def _report_failure(self, owner: Object, name: str, error: ApiError) -> None:
        text = f'Failed to create new replica set "{name}": {error.message}'
        self.events.record(owner, "Warning", rollout.CREATE_ERROR, "", text)
        if rollout.has_deadline(owner):
            now = self.context.clock.wall()
            await self._set_condition(owner, rollout.condition("Progressing", "False", rollout.CREATE_ERROR, text, now))

    async def _check_paused(self, owner: Object) -> Object:
        """Record in the condition Progressing that *owner* was paused or resumed; return its new state."""
        current = conditions.find((owner.get("status") or {}).get("conditions"), "Progressing")
        reason = (current or {}).get("reason")
        if not rollout.has_deadline(owner) or reason == rollout.TIMED_OUT:
            return owner
        paused = bool(owner["spec"].get("paused"))
        if paused == (reason == rollout.PAUSED):
            return owner
        new_reason = rollout.PAUSED if paused else rollout.RESUMED
        text = f"Deployment is {'paused' if paused else 'resumed'}"
        now = self.context.clock.wall()
        return await self._set_condition(owner, rollout.condition("Progressing", "Unknown", new_reason, text, now))

    async def _set_condition(self, owner: Object, new: Object) -> Object:
        def edit(obj: Object) -> None:
            status = obj.setdefault("status", {})
            status["conditions"] = conditions.with_condition(status.get("conditions"), new)

        return await self.writer.change(self.owner, owner, edit) or owner

    async def _set_revision(self, owner: Object, revision: str | None, progress: Object | None) -> Object:
        """Set the revision in the annotations of *owner*, and the condition *progress*; return the new state."""
        generation = owner["metadata"].get("generation")

        def edit(obj: Object) -> None:
            metadata = obj["metadata"]
            if revision is not None:
                metadata["annotations"] = {**(metadata.get("annotations") or {}), self._names.revision: revision}
            if progress is not None:
                status = obj.setdefault("status", {})
                status["conditions"] = conditions.with_condition(status.get("conditions"), progress)

        new = await self.writer.change(self.owner, owner, edit)
        if new is None or new["metadata"].get("generation") != generation:
            return owner
        return new

    async def _scale(self, owner: Object, item: Object, size: int) -> Object:
        """Set the size of a ReplicaSet and its annotations with the size of the Deployment; return its new state."""
        before = rollout.replicas(item)
        sizes = rollout.sizes(owner, self._names)

        def edit(obj: Object) -> None:
            metadata = obj["metadata"]
            obj["spec"]["replicas"] = size
            annotations = metadata.get("annotations") or {}
            metadata["annotations"] = {**annotations, **sizes}

        new = await self._change_set(item, edit)
        if before != size:
            direction, name = "up" if before < size else "down", item["metadata"]["name"]
            text = f"Scaled {direction} replica set {name} to {size} from {before}"
            self.events.record(owner, "Normal", "ScalingReplicaSet", "", text)
        return new

    async def _delete_history(self, owner: Object, old: Sequence[Object]) -> None:
        """Delete the oldest ReplicaSets beyond the limit of the history; those with pods remain."""
        limit = owner["spec"].get("revisionHistoryLimit")
        if limit is None:
            return
        alive = [item for item in old if "deletionTimestamp" not in item["metadata"]]
        alive.sort(key=lambda item: (rollout.revision_of(item, self._names), rollout.created_order(item)))
        for item in alive[: max(0, len(alive) - limit)]:
            status = item.get("status") or {}
            observed = (item["metadata"].get("generation") or 0) <= (status.get("observedGeneration") or 0)
            if observed and not rollout.replicas(item) and not status.get("replicas"):
                await self.writer.delete(self._sets, item["metadata"])

    async def _write_status(
        self,
        owner: Object,
        sets: Sequence[Object],
        new: Object | None,
        compute: Callable[..., Object],
    ) -> None:
        now = self.context.clock.wall()
        status = compute(owner, sets, new, now)
        if status != (owner.get("status") or {}):

            def edit(obj: Object) -> None:
                obj["status"] = status

            await self.writer.change(self.owner, owner, edit)
        elif (seconds := rollout.seconds_left(owner, now)) is not None:
            metadata = owner["metadata"]
            self.queue.add_after(self.owner.key(metadata["namespace"], metadata["name"]), max(seconds, 0.0) + 1)

    async def _change_set(self, item: Object, edit: Callable[[Object], None]) -> Object:
        return await self.writer.change(self._sets, item, edit) or item

    def _read(self, view: View) -> Object | None:
        record = self.context.verbs.store.collection(self._sets.storage).get(view.key)
        return None if record is None else self._sets.read(record)
