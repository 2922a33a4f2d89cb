"""Pod status cache, refreshed only for pods that changed since the last relist."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence

from nodeagent.base.aio import Clock
from nodeagent.contracts.runtime import (
    LABEL_POD_NAME,
    LABEL_POD_NAMESPACE,
    ContainerRuntime,
    ContainerState,
    RuntimeContainerStatus,
    RuntimePod,
    SandboxStatus,
)
from nodeagent.errors import NotFound, RuntimeFailure
from nodeagent.pleg.termination_message import with_message


class PodCache:
    """Last observed status of each pod; implements :class:`~nodeagent.podworker.interfaces.PodObserver`.

    An exited container never changes again, so its status is requested once.
    """

    def __init__(self, runtime: Callable[[], ContainerRuntime], clock: Clock) -> None:
        self._runtime, self._clock = runtime, clock
        self._pods: dict[str, RuntimePod] = {}
        self._unread: set[str] = set()
        """UIDs of listed pods whose status could not be read."""
        self._listed: set[str] | None = None
        """UIDs of the pods of the last listing, without those that were removed since."""
        self._outdated: dict[str, set[str]] = {}
        """IDs of changed sandboxes and containers whose status could not be read since the change, by pod."""

    def get(self, uid: str) -> RuntimePod | None:
        return self._pods.get(uid)

    def is_known(self, uid: str) -> bool:
        return uid not in self._unread and uid not in self._outdated

    def listed(self, uids: Collection[str]) -> None:
        """Record that only these pods exist in the runtime."""
        self._listed = set(uids)
        self._unread.intersection_update(uids)
        for uid in [uid for uid in self._outdated if uid not in self._listed]:
            del self._outdated[uid]

    def failed(self, uid: str) -> None:
        """Record that the status of a listed pod could not be read; a status that was read earlier remains valid."""
        if uid not in self._pods:
            self._unread.add(uid)

    def pods(self) -> Iterable[RuntimePod]:
        """Return all pods that exist in the runtime and whose status could be read."""
        return self._pods.values()

    def uids(self) -> frozenset[str] | None:
        """Return the UIDs of all pods that exist in the runtime, ``None`` until it has listed them."""
        return None if self._listed is None else frozenset(self._pods.keys() | self._listed)

    def put(self, pod: RuntimePod) -> None:
        """Store a pod status; a pod without sandboxes and containers is removed."""
        self._unread.discard(pod.uid)
        if pod.sandboxes or pod.containers:
            self._pods[pod.uid] = pod
        else:
            self.forget(pod.uid)

    def forget(self, uid: str) -> None:
        """Drop a pod that was removed from the runtime; a concurrent relist that has listed it queries it again."""
        self._pods.pop(uid, None)
        self._unread.discard(uid)
        self._outdated.pop(uid, None)
        if self._listed is not None:
            self._listed.discard(uid)

    async def refresh(
        self, uid: str, touched: frozenset[str] | None = None, created: SandboxStatus | None = None
    ) -> RuntimePod | None:
        """Refresh the status of a pod; see :class:`~nodeagent.podworker.interfaces.PodObserver`."""
        try:
            return await self._refresh(uid, touched, created)
        except (RuntimeFailure, asyncio.CancelledError):
            if touched:
                self._outdated.setdefault(uid, set()).update(touched)
            raise

    async def _refresh(
        self, uid: str, touched: frozenset[str] | None, created: SandboxStatus | None
    ) -> RuntimePod | None:
        started = self._clock.now()
        known = self._pods.get(uid)
        runtime = self._runtime()
        if touched is None:
            sandboxes, containers = await asyncio.gather(runtime.list_sandboxes(uid), runtime.list_containers(uid))
            sandbox_ids = [s.id for s in sandboxes if s.uid == uid]
            container_ids = [c.id for c in containers]
            statuses = await self._query(known, sandbox_ids, container_ids, None)
        else:
            statuses = await self._query(
                known,
                [s.id for s in known.sandboxes] if known else [],
                [c.id for c in known.containers] if known else [],
                touched if created is None else touched - {created.id},
            )
            if created is not None and not (known and any(s.id == created.id for s in known.sandboxes)):
                statuses.append(created)
        newer = self._pods.get(uid)
        if newer is not None and newer.observed_at > started:
            return newer  # A concurrent refresh that started later has finished first.
        pod = _assemble(uid, known, statuses, started)
        self._note_read(uid, touched)
        self.put(pod)
        return self._pods.get(uid)

    def _note_read(self, uid: str, read: frozenset[str] | None) -> None:
        """Record that the sandboxes and containers of a pod with the IDs *read*, or all, were read."""
        outdated = self._outdated.pop(uid, set()) - (read or set())
        if outdated and read is not None:
            self._outdated[uid] = outdated

    async def observe(
        self, uid: str, sandbox_ids: Sequence[str], container_ids: Sequence[str], changed: frozenset[str], at: float
    ) -> RuntimePod | None:
        """Refresh the *changed* IDs of a relist; the others are taken from the cache.

        :param at: start time of the relist; a later cached status is kept.
        """
        known = self._pods.get(uid)
        if known is not None and known.observed_at > at:
            return known
        changed |= self._outdated.get(uid, set())
        statuses = await self._query(known, sandbox_ids, container_ids, changed)
        newer = self._pods.get(uid)
        if newer is not None and newer.observed_at > at:
            return newer
        self._note_read(uid, changed)
        self.put(_assemble(uid, known, statuses, at))
        return self._pods.get(uid)

    async def _query(
        self,
        known: RuntimePod | None,
        sandbox_ids: Sequence[str],
        container_ids: Sequence[str],
        changed: frozenset[str] | None,
    ) -> list[SandboxStatus | RuntimeContainerStatus]:
        old: dict[str, SandboxStatus | RuntimeContainerStatus] = {}
        if known is not None:
            old = {**{s.id: s for s in known.sandboxes}, **{c.id: c for c in known.containers}}
        cached: list[SandboxStatus | RuntimeContainerStatus] = []
        requests = []
        for container in (False, True):
            for object_id in container_ids if container else sandbox_ids:
                before = old.get(object_id)
                # A changed container that had exited may have been removed.
                unchanged = changed is not None and object_id not in changed
                if before is not None and (unchanged or (changed is None and _final(before))):
                    cached.append(before)
                else:
                    requests.append(self._query_one(object_id, container=container))
        unknown = set(changed or ()) - set(sandbox_ids) - set(container_ids)
        requests.extend(self._query_one(object_id, container=None) for object_id in unknown)
        return [*cached, *(status for status in await asyncio.gather(*requests) if status is not None)]

    async def _query_one(
        self, object_id: str, *, container: bool | None
    ) -> SandboxStatus | RuntimeContainerStatus | None:
        runtime = self._runtime()
        if container is not False:
            try:
                return await with_message(await runtime.container_status(object_id))
            except NotFound:
                if container:
                    return None
        try:
            return await runtime.sandbox_status(object_id)
        except NotFound:
            return None


def _final(status: SandboxStatus | RuntimeContainerStatus) -> bool:
    if isinstance(status, SandboxStatus):
        return False  # A dead sandbox may have been removed since; there are few of them.
    return status.state is ContainerState.EXITED


def _assemble(
    uid: str, known: RuntimePod | None, statuses: Iterable[SandboxStatus | RuntimeContainerStatus], at: float
) -> RuntimePod:
    sandboxes = [p for p in statuses if isinstance(p, SandboxStatus)]
    containers = [p for p in statuses if isinstance(p, RuntimeContainerStatus)]
    # By attempt first, because the clock may have been set back between two attempts.
    sandboxes.sort(key=lambda s: (s.attempt, s.created_at), reverse=True)
    containers.sort(key=lambda c: (c.attempt, c.created_at), reverse=True)
    name, namespace = "", ""
    if sandboxes:
        name, namespace = sandboxes[0].name, sandboxes[0].namespace
    elif known is not None:
        name, namespace = known.name, known.namespace
    elif containers:
        labels = containers[0].labels
        name = labels.get(LABEL_POD_NAME, "")
        namespace = labels.get(LABEL_POD_NAMESPACE, "")
    return RuntimePod(uid, name, namespace, tuple(sandboxes), tuple(containers), at)
