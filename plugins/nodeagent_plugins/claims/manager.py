"""Claim manager: prepares claims before a pod starts, and unprepares them after its last pod has stopped.

The checkpoint is written before the first call and after each result, so that after a crash at any point every claim
that a driver may have prepared is known. Calls for one claim never overlap; other claims are not delayed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from time import monotonic

from nodeagent.contracts.claims import ClaimDriver, ClaimedDeviceHealth, PrepareResult
from nodeagent.contracts.context import DevicesContext
from nodeagent.contracts.events import EventType
from nodeagent.errors import ClaimError
from nodeagent.model.pod import Container, Pod
from nodeagent.model.qos import is_static_or_mirror
from nodeagent_plugins.claims.allocated_claims import AllocatedClaim, ResourceApi, read_claim
from nodeagent_plugins.claims.checkpoint import Checkpoint
from nodeagent_plugins.claims.device_health import HealthCache
from nodeagent_plugins.claims.drivers import Drivers
from nodeagent_plugins.claims.metrics import IN_USE, OPERATIONS
from nodeagent_plugins.claims.pod_claims import ClaimUse, PodClaim, claims_of, uses_of
from nodeagent_plugins.claims.state import ClaimCache, ClaimEntry, DriverEntry

RECONCILE_SECONDS = 60.0
_UNPREPARE_FAILED = "FailedUnprepareDynamicResources"
_log = logging.getLogger(__name__)


class Manager:
    """Implements :class:`~nodeagent.contracts.claims.ClaimManager`.

    :param checkpoint: read by :meth:`start`.
    """

    name = "resource claims"

    def __init__(
        self, context: DevicesContext, api: ResourceApi | None, drivers: Drivers, checkpoint: Checkpoint
    ) -> None:
        self._context, self._api, self._drivers, self._checkpoint = context, api, drivers, checkpoint
        self.cache, self.health_cache = ClaimCache(), HealthCache(context.clock)
        self._locks: dict[str, asyncio.Lock] = {}
        self._writing = asyncio.Lock()
        self._waiting: dict[str, set[str]] = {}
        """UIDs of pods that wait for a driver."""
        drivers.on_change(self._retry)

    def start(self) -> None:
        """Restore the claims from before a restart. Blocks.

        :raises OSError: the checkpoint cannot be read.
        """
        self.cache = ClaimCache(self._checkpoint.read())
        self._count()

    # --- ClaimManager -------------------------------------------------------------------------------------------

    async def prepare_pod(self, pod: Pod) -> None:
        """Prepare the claims of *pod*; see :class:`~nodeagent.contracts.claims.ClaimManager`."""
        if not pod.spec.resource_claims and pod.status.extended_resource_claim_status is None:
            return
        started, failed = monotonic(), True
        try:
            await self._prepare(pod)
            failed = False
        except ClaimError as error:
            note = f"Failed to prepare dynamic resources: {error}"
            self._context.recorder.record(pod.reference(), EventType.WARNING, error.reason, note)
            raise
        finally:
            OPERATIONS.observe(monotonic() - started, "PrepareResources", str(failed).lower())

    async def release_pod(self, pod: Pod) -> None:
        """Unprepare the claims of *pod*; see :class:`~nodeagent.contracts.claims.ClaimManager`."""
        if not self.cache.of_pod(pod.uid):
            return
        try:
            await self._release(pod.uid)
        except ClaimError as error:
            note = f"Failed to unprepare dynamic resources: {error}"
            self._context.recorder.record(pod.reference(), EventType.WARNING, _UNPREPARE_FAILED, note)
            raise ClaimError(f"unprepare dynamic resources: {error}", reason=_UNPREPARE_FAILED) from error

    def is_in_use(self, pod_uid: str) -> bool:
        """Return whether a claim may be prepared for a pod."""
        return bool(self.cache.of_pod(pod_uid))

    def cdi_devices(self, pod: Pod, container: Container) -> Sequence[str]:
        """Return the CDI names for *container*; see :class:`~nodeagent.contracts.claims.ClaimManager`."""
        names: dict[str, None] = {}
        for use in uses_of(pod, container):
            entry = self.cache.find(pod.namespace, use.claim, pod.uid)
            if entry is None or not entry.is_prepared:
                text = f"unable to get claim info for ResourceClaim {use.claim} in namespace {pod.namespace}"
                raise ClaimError(f"internal error: {text}")
            for _, device in entry.devices(use.request):
                names.update(dict.fromkeys(device.cdi_devices))
        return tuple(names)

    def devices(self, pod: Pod, container: Container) -> Sequence[ClaimedDeviceHealth]:
        """Return the prepared devices; see :class:`~nodeagent.contracts.claims.ClaimManager`."""
        return self.health_cache.of_container(self.cache, pod, _known_uses(pod, container))

    def health(self, pod: Pod, container: Container) -> Sequence[ClaimedDeviceHealth]:
        """Return the health of devices; see :class:`~nodeagent.contracts.claims.ClaimManager`."""
        return self.health_cache.of_container(self.cache, pod, _known_uses(pod, container), reported_only=True)

    def health_changed(self, driver: str, devices: set[tuple[str, str]]) -> None:
        """Sync the pods that use *devices*, pool and name, of *driver*, so that their status is updated."""
        for entry in self.cache.entries.values():
            state = entry.drivers.get(driver)
            if state is not None and any((each.pool, each.device) in devices for each in state.devices):
                for uid in entry.pods:
                    self._context.pods.trigger_sync(uid)

    # --- background ---------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Unprepare the claims of pods that vanished, for example by a forced deletion, until cancelled."""
        while True:
            await self._context.clock.sleep(RECONCILE_SECONDS)
            if self._context.pods.all_sources_ready:
                await self.reconcile()

    async def reconcile(self) -> None:
        """Unprepare the claims of pods that are neither desired nor running."""
        for uid in self.cache.pods():
            if self._context.pods.get(uid) is None:
                try:
                    await self._release(uid)
                except ClaimError as error:
                    fields = {"podUID": uid, "err": str(error)}
                    _log.error("Unpreparing pod resources in reconcile loop failed, will retry", extra=fields)

    def _retry(self, driver: str) -> None:
        """Sync the pods that wait for a driver."""
        if self._drivers.is_connected(driver):
            for uid in self._waiting.pop(driver, ()):
                self._context.pods.trigger_sync(uid)

    # --- prepare ------------------------------------------------------------------------------------------------

    async def _prepare(self, pod: Pod) -> None:
        claims = claims_of(pod)
        if all(self._is_prepared(pod, claim) for claim in claims):
            return
        if self._api is None or is_static_or_mirror(pod):
            raise ClaimError("static pods cannot use ResourceClaims")
        # Nothing changes before all claims were checked, so that a pod that cannot start occupies none.
        allocated = [await read_claim(self._api, pod, claim) for claim in claims]
        for driver in {driver for claim in allocated for driver in claim.drivers}:
            self._need_driver(driver, pod.uid)
        async with self._locked(claim.reference.uid for claim in allocated):
            await self._unprepare_replaced(allocated, pod.uid)
            entries = [self._reference(claim, pod.uid) for claim in allocated]
            await self._write()
            await self._for_each_driver(entries, pod.uid)

    def _is_prepared(self, pod: Pod, claim: PodClaim) -> bool:
        entry = self.cache.find(pod.namespace, claim.claim, pod.uid)
        return entry is not None and entry.is_prepared

    def _reference(self, claim: AllocatedClaim, pod_uid: str) -> ClaimEntry:
        uid = claim.reference.uid
        entry = self.cache.entries.setdefault(uid, ClaimEntry(claim.reference))
        for name in claim.drivers:  # One of them may have unprepared the claim for a previous pod.
            entry.drivers.setdefault(name, DriverEntry())
        entry.pods.add(pod_uid)
        return entry

    async def _unprepare_replaced(self, allocated: Sequence[AllocatedClaim], pod_uid: str) -> None:
        """Unprepare claims that were deallocated and allocated again while the agent did not run.

        The claim of a pod that still exists stays reserved for it, also if its driver names other devices.
        """
        replaced = []
        for claim in allocated:
            entry = self.cache.entries.get(claim.reference.uid)
            if entry is None or any(uid == pod_uid or self._context.pods.get(uid) for uid in entry.pods):
                continue
            stored = {(driver, each.pool, each.device) for driver, each in entry.devices()}
            if not stored <= set(claim.devices) or set(entry.drivers) != set(claim.drivers):
                replaced.append(entry)
        if replaced:
            await self._unprepare(replaced)

    async def _for_each_driver(self, entries: Sequence[ClaimEntry], pod_uid: str) -> None:
        batches: dict[str, list[ClaimEntry]] = {}
        for entry in entries:
            for name in entry.unprepared():
                batches.setdefault(name, []).append(entry)
        for name, batch in batches.items():
            driver = self._need_driver(name, pod_uid)
            try:
                results = await driver.prepare([entry.reference for entry in batch])
            except ClaimError:
                self._waiting.setdefault(name, set()).add(pod_uid)
                raise
            try:
                _check_results("NodePrepareResources", batch, results)
            finally:
                # Also after an error: claims without one are prepared, and must not be prepared twice.
                for entry in batch:
                    result = results.get(entry.reference.uid)
                    if result is not None and not result.error:
                        entry.drivers[name] = DriverEntry(True, tuple(result.devices))
                await self._write()
            for entry in batch:
                if error := results[entry.reference.uid].error:
                    raise ClaimError(f"NodePrepareResources failed for ResourceClaim {entry.reference.name}: {error}")

    # --- unprepare ----------------------------------------------------------------------------------------------

    async def _release(self, pod_uid: str) -> None:
        started, failed = monotonic(), True
        uids = [entry.reference.uid for entry in self.cache.of_pod(pod_uid)]
        try:
            async with self._locked(uids):
                unused = []
                for entry in self.cache.of_pod(pod_uid):
                    if entry.pods == {pod_uid}:
                        unused.append(entry)
                    else:
                        entry.pods.discard(pod_uid)
                await self._unprepare(unused, pod_uid)
                await self._write()
            failed = False
        finally:
            OPERATIONS.observe(monotonic() - started, "UnprepareResources", str(failed).lower())

    async def _unprepare(self, entries: Sequence[ClaimEntry], pod_uid: str = "") -> None:
        """Unprepare claims and remove their entries; those of other drivers are removed even if one driver fails.

        :raises ClaimError: a claim cannot be unprepared now; it keeps its entry.
        """
        batches: dict[str, list[ClaimEntry]] = {}
        for entry in entries:
            for name in entry.drivers:
                batches.setdefault(name, []).append(entry)
        for entry in entries:
            for state in entry.drivers.values():
                state.prepared = False  # Also if a call fails: the driver may have unprepared the claim.
        if entries:
            await self._write()
        errors = []
        for name, batch in batches.items():
            try:
                driver = self._need_driver(name, pod_uid)
                results = await driver.unprepare([entry.reference for entry in batch])
                _check_results("NodeUnprepareResources", batch, results)
            except ClaimError as error:
                errors.append(str(error))
                if pod_uid:
                    self._waiting.setdefault(name, set()).add(pod_uid)
                continue
            for entry in batch:
                if error_text := results[entry.reference.uid]:
                    failed = entry.reference.name
                    errors.append(f"NodeUnprepareResources failed for ResourceClaim {failed}: {error_text}")
                else:
                    del entry.drivers[name]
        for entry in entries:
            if not entry.drivers:
                self.cache.entries.pop(entry.reference.uid, None)
        await self._write()
        if errors:
            raise ClaimError("; ".join(errors))

    # --- helpers ------------------------------------------------------------------------------------------------

    def _need_driver(self, name: str, pod_uid: str) -> ClaimDriver:
        """Return a driver, or record that a pod waits for it.

        :raises ClaimError: it is not registered.
        """
        try:
            return self._drivers.get(name)
        except ClaimError:
            if pod_uid:
                self._waiting.setdefault(name, set()).add(pod_uid)
            raise

    @asynccontextmanager
    async def _locked(self, uids: Iterable[str]) -> AsyncIterator[None]:
        """Exclude other calls for the claims *uids*."""
        async with AsyncExitStack() as stack:
            for uid in sorted(set(uids)):
                await stack.enter_async_context(self._locks.setdefault(uid, asyncio.Lock()))
            yield
        for uid in [uid for uid, lock in self._locks.items() if uid not in self.cache.entries and not lock.locked()]:
            del self._locks[uid]

    async def _write(self) -> None:
        """Write the checkpoint.

        :raises ClaimError: it cannot be written.
        """
        self._count()
        async with self._writing:
            text = self._checkpoint.encode(self.cache.entries.values())
            write = asyncio.ensure_future(asyncio.to_thread(self._checkpoint.write, text))
            try:
                await asyncio.shield(write)
            except asyncio.CancelledError:
                await asyncio.wait({write})  # The next write must not overlap with this one.
                raise
            except OSError as error:
                raise ClaimError(f"checkpoint ResourceClaim state: {error}") from error

    def _count(self) -> None:
        for name in self._drivers.names():
            IN_USE.set(0, name)
        for name, count in self.cache.in_use().items():
            IN_USE.set(count, name)
        IN_USE.set(len(self.cache.entries), "<any>")


def _known_uses(pod: Pod, container: Container) -> list[ClaimUse]:
    """Return the claims that a container uses; none if a claim of the pod does not exist yet."""
    try:
        return list(uses_of(pod, container))
    except ClaimError:
        return []


def _check_results(
    method: str, batch: Sequence[ClaimEntry], results: Mapping[str, PrepareResult] | Mapping[str, str]
) -> None:
    """Check that a response has exactly the claims of the request.

    :raises ClaimError: it does not.
    """
    uids = {entry.reference.uid for entry in batch}
    for uid in results:
        if uid not in uids:
            raise ClaimError(f"{method} returned result for unknown claim UID {uid[:63]}")
    if missing := len(uids) - len(results):
        raise ClaimError(f"{method} skipped {missing} ResourceClaims")
