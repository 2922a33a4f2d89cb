"""The newest picture of each pod, looked at closely only where something changed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

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
from nodeagent.errors import NotFound
from nodeagent.pleg.termination_message import with_message


class PodCache:
    """What was last observed of each pod (:class:`~nodeagent.contracts.observe.PodObserver`).

    An exited container and a dead sandbox never change again, so they are asked for once.
    """

    def __init__(self, runtime: Callable[[], ContainerRuntime], clock: Clock) -> None:
        self._runtime, self._clock = runtime, clock
        self._pods: dict[str, RuntimePod] = {}

    def get(self, uid: str) -> RuntimePod | None:
        return self._pods.get(uid)

    def pods(self) -> Iterable[RuntimePod]:
        """Return all pods that the runtime knows."""
        return self._pods.values()

    def put(self, pod: RuntimePod) -> None:
        """Take a picture that came from elsewhere, such as the runtime's event stream."""
        if pod.sandboxes or pod.containers:
            self._pods[pod.uid] = pod
        else:
            self._pods.pop(pod.uid, None)

    async def refresh(self, uid: str, touched: frozenset[str] | None = None) -> RuntimePod | None:
        """Look at a pod again; see :class:`~nodeagent.contracts.observe.PodObserver`."""
        started = self._clock.now()
        known = self._pods.get(uid)
        runtime = self._runtime()
        if touched is None:
            sandboxes, containers = await asyncio.gather(runtime.list_sandboxes(uid), runtime.list_containers(uid))
            sandbox_ids = [s.id for s in sandboxes if s.uid == uid]
            container_ids = [c.id for c in containers]
            pictures = await self._look(known, sandbox_ids, container_ids, None)
        else:
            pictures = await self._look(
                known,
                [s.id for s in known.sandboxes] if known else [],
                [c.id for c in known.containers] if known else [],
                touched,
            )
        newer = self._pods.get(uid)
        if newer is not None and newer is not known and newer.observed_at > started:
            return newer  # somebody looked later and was faster
        pod = _assemble(uid, known, pictures, started)
        self.put(pod)
        return self._pods.get(uid)

    async def observe(
        self, uid: str, sandbox_ids: Sequence[str], container_ids: Sequence[str], changed: frozenset[str], at: float
    ) -> RuntimePod | None:
        """Look at the *changed* ones among the listed ids; the rest is taken as last observed.

        :param at: when the listing began; a picture taken later stays.
        """
        known = self._pods.get(uid)
        if known is not None and known.observed_at > at:
            return known
        pictures = await self._look(known, sandbox_ids, container_ids, changed)
        newer = self._pods.get(uid)
        if newer is not known and newer is not None and newer.observed_at > at:
            return newer
        self.put(_assemble(uid, known, pictures, at))
        return self._pods.get(uid)

    async def _look(
        self,
        known: RuntimePod | None,
        sandbox_ids: Sequence[str],
        container_ids: Sequence[str],
        changed: frozenset[str] | None,
    ) -> list[SandboxStatus | RuntimeContainerStatus]:
        old: dict[str, SandboxStatus | RuntimeContainerStatus] = {}
        if known is not None:
            old = {**{s.id: s for s in known.sandboxes}, **{c.id: c for c in known.containers}}
        kept: list[SandboxStatus | RuntimeContainerStatus] = []
        asked = []
        for container in (False, True):
            for object_id in container_ids if container else sandbox_ids:
                before = old.get(object_id)
                if before is not None and (_final(before) or (changed is not None and object_id not in changed)):
                    kept.append(before)
                else:
                    asked.append(self._ask(object_id, container=container))
        unknown = set(changed or ()) - set(sandbox_ids) - set(container_ids)
        asked.extend(self._ask(object_id, container=None) for object_id in unknown)
        return [*kept, *(answer for answer in await asyncio.gather(*asked) if answer is not None)]

    async def _ask(self, object_id: str, *, container: bool | None) -> SandboxStatus | RuntimeContainerStatus | None:
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


def _final(picture: SandboxStatus | RuntimeContainerStatus) -> bool:
    if isinstance(picture, SandboxStatus):
        return False  # a dead sandbox may be gone by now, and there are few of them
    return picture.state is ContainerState.EXITED


def _assemble(
    uid: str, known: RuntimePod | None, pictures: Iterable[SandboxStatus | RuntimeContainerStatus], at: float
) -> RuntimePod:
    sandboxes = [p for p in pictures if isinstance(p, SandboxStatus)]
    containers = [p for p in pictures if isinstance(p, RuntimeContainerStatus)]
    sandboxes.sort(key=lambda s: s.created_at, reverse=True)
    containers.sort(key=lambda c: (c.created_at, c.attempt), reverse=True)
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
