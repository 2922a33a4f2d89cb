"""Mirror pods: representation of static pods in the API."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

import msgspec

from nodeagent.base import identity
from nodeagent.base.aio import Backoff, Clock
from nodeagent.base.metrics import SampledGauge
from nodeagent.contracts.api import PODS, Api
from nodeagent.errors import ApiConflict, ApiError, ApiNotFound
from nodeagent.model.meta import ObjectReference, OwnerReference
from nodeagent.model.pod import Pod, PodStatus
from nodeagent.model.wire import to_wire

_log = logging.getLogger(__name__)
RECHECK_SECONDS = 60.0
MIRRORS = SampledGauge(
    "mirror_pods", "The number of mirror pods the kubelet will try to create (one per admitted static pod)"
)


class MirrorPods:
    """Creates a mirror pod for each static pod, and replaces outdated and deletes unneeded ones.

    :param static_pods: returns the desired static pods, or ``None`` until every source has published.
    :param node: returns a reference to the node; its UID is empty until the node is registered.
    :param appeared: called with the UID of a static pod and its new mirror pod.
    """

    def __init__(
        self,
        *,
        api: Callable[[], Api | None],
        clock: Clock,
        static_pods: Callable[[], Sequence[Pod] | None],
        node: Callable[[], ObjectReference],
        appeared: Callable[[str, Pod], None],
    ) -> None:
        self._api, self._clock, self._static_pods, self._node = api, clock, static_pods, node
        self._appeared = appeared
        self._mirrors: dict[str, Pod] = {}
        self._woken = asyncio.Event()
        self._logged_errors: dict[str, str] = {}
        MIRRORS.sample = lambda: {(): len(self._mirrors)}

    def of(self, pod: Pod) -> Pod | None:
        """Return the mirror pod of a static pod, if it exists and is up to date."""
        mirror = self._mirrors.get(pod.full_name)
        return mirror if mirror is not None and _hash(mirror, "config.mirror") == mirror_hash(pod) else None

    def seen(self, mirror: Pod) -> None:
        """Record a mirror pod as returned by the API."""
        known = self._mirrors.get(mirror.full_name)
        self._mirrors[mirror.full_name] = mirror
        if known is None or known.uid != mirror.uid:
            self.wake()
            for pod in self._static_pods() or ():
                if pod.full_name == mirror.full_name:
                    self._appeared(pod.uid, mirror)
        elif mirror.metadata.deletion_timestamp is not None:
            self.wake()

    def gone(self, mirror: Pod) -> None:
        """Record the deletion of a mirror pod."""
        known = self._mirrors.get(mirror.full_name)
        if known is not None and known.uid == mirror.uid:
            del self._mirrors[mirror.full_name]
        self.wake()

    def wake(self) -> None:
        """Reconcile mirror pods soon."""
        self._woken.set()

    async def run(self) -> None:
        """Reconcile mirror pods until cancelled."""
        backoff = Backoff(0.5, 30.0)
        while True:
            try:
                async with asyncio.timeout(RECHECK_SECONDS):
                    await self._woken.wait()
            except TimeoutError:
                pass
            self._woken.clear()
            if await self._reconcile():
                backoff.reset()
            else:
                await self._clock.sleep(backoff.next())
                self._woken.set()

    async def _reconcile(self) -> bool:
        api, pods = self._api(), self._static_pods()
        if api is None or pods is None:
            return True
        done = True
        desired = {pod.full_name: pod for pod in pods}
        for name, mirror in list(self._mirrors.items()):
            pod = desired.get(name)
            outdated = pod is None or _hash(mirror, "config.mirror") != mirror_hash(pod)
            if outdated or mirror.metadata.deletion_timestamp is not None:
                done &= await self._delete(api, mirror)
        for name, pod in desired.items():
            if name not in self._mirrors and pod.metadata.deletion_timestamp is None:
                done &= await self._create(api, pod)
        return done

    async def _delete(self, api: Api, mirror: Pod) -> bool:
        try:
            await api.delete(PODS, mirror.name, mirror.namespace, grace_seconds=0, uid=mirror.uid)
        except (ApiNotFound, ApiConflict):
            # The watch reports the deletion or the replacement. Until then, the request is repeated: an API server that
            # has just started responds with 404 for a pod that its admission plugins have not read yet.
            return False
        except ApiError as error:
            _log.error("Failed deleting mirror pod", extra={"pod": mirror.full_name, "err": str(error)})
            return False
        self._mirrors.pop(mirror.full_name, None)
        return True

    async def _create(self, api: Api, pod: Pod) -> bool:
        node = self._node()
        if not node.uid:
            return False
        try:
            created = await api.create(PODS, to_wire(_mirror(pod, node)), pod.namespace)
        except ApiConflict:
            return True  # It exists already; the watch will deliver it.
        except ApiError as error:
            if self._logged_errors.get(pod.uid) != str(error):
                self._logged_errors[pod.uid] = str(error)
                _log.error("Failed creating a mirror pod for", extra={"pod": pod.full_name, "err": str(error)})
            return not error.transient and error.code < 500
        self._logged_errors.pop(pod.uid, None)
        mirror = msgspec.convert(created, Pod)
        if pod.full_name not in self._mirrors:
            self.seen(mirror)
        return True


def mirror_hash(pod: Pod) -> str:
    """Return the hash in the annotation of an up-to-date mirror pod of *pod*."""
    return _hash(pod, "config.hash") or pod.uid


def _hash(pod: Pod, name: str) -> str:
    return (pod.metadata.annotations or {}).get(identity.current().label(name), "")


def _mirror(pod: Pod, node: ObjectReference) -> Pod:
    """Return the mirror pod for the static pod *pod*."""
    names = identity.current()
    owner = OwnerReference(api_version="v1", kind="Node", name=node.name, uid=node.uid, controller=True)
    meta = msgspec.structs.replace(
        pod.metadata,
        uid="",
        resource_version="",
        creation_timestamp=None,
        annotations={**(pod.metadata.annotations or {}), names.label("config.mirror"): mirror_hash(pod)},
        owner_references=[owner],
    )
    return msgspec.structs.replace(pod, metadata=meta, status=PodStatus())
