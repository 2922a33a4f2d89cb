"""APIService availability controller: check extension API servers and read their discovery documents."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from apiserver_stub.aggregation.documents import openapi_url, resources_of
from apiserver_stub.aggregation.extension_client import ExtensionClient, ExtensionRequestError
from apiserver_stub.aggregation.remotes import NOTHING, Discovered, GroupVersion, Remote, remote_of
from apiserver_stub.aggregation.service_resolver import ENDPOINTS, SERVICES, endpoints_of, find, name_of_port
from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.kinds import api_services
from apiserver_stub.kinds.api_services import available, is_local, local_status
from apiserver_stub.storage import Keep, Outcome, Put, Record, StoreRejected, StoreUnavailable
from apiserver_stub.storage.changes import changed_since, log_ends
from nodeagent.base.aio import Backoff, TaskOwner
from nodeagent.base.logging import v_level

if TYPE_CHECKING:
    from apiserver_stub.aggregation.remotes import Remotes
    from apiserver_stub.kinds.registry import Registry
    from apiserver_stub.storage import Store

_log = logging.getLogger(__name__)

RESYNC_SECONDS = 30.0
_PAUSE_SECONDS = 0.1
_FIRST_RETRY_SECONDS = 0.5
_ATTEMPTS = 5
_AT_ONCE = 10
Condition = tuple[str, str, str]
"""Status, reason and message."""
_PASSED: Condition = ("True", "Passed", "all checks passed")


class Availability:
    """Controller of the ``Available`` condition of API services and of the table of remote group versions.

    Remote API services are checked when they, their Services or endpoints change, and every thirty seconds. Failures
    are retried with exponential backoff.
    """

    def __init__(self, store: Store, registry: Registry, remotes: Remotes, extensions: ExtensionClient) -> None:
        self._store, self._remotes, self._extensions = store, remotes, extensions
        group = remotes.identity.group(api_services.GROUP)
        resource = registry.find(group, "v1", "apiservices")
        self._collection = resource.storage if resource is not None else ""
        self._checks: dict[GroupVersion, _Check] = {}
        self._slots = asyncio.Semaphore(_AT_ONCE)

    async def run(self) -> None:
        """Watch the API services until cancelled."""
        async with AsyncExitStack() as stack:
            tasks = await stack.enter_async_context(TaskOwner("api-service-checks"))
            while self._collection:
                positions = log_ends(self._store, self._collection)
                if self._remotes.table:
                    positions |= log_ends(self._store, SERVICES, ENDPOINTS)
                late = None
                try:
                    await self._sync(tasks)
                except (StoreUnavailable, StoreRejected) as error:
                    late = RESYNC_SECONDS
                    _log.warning("Failed to update APIService status", extra={"err": error})
                if bool(self._remotes.table) != (SERVICES in positions):
                    continue
                await changed_since(self._store, positions, timeout_seconds=late)
                await asyncio.sleep(_PAUSE_SECONDS)

    async def _sync(self, tasks: TaskOwner) -> None:
        table: dict[GroupVersion, Remote] = {}
        for record in self._store.collection(self._collection).select():
            obj: Object = objects.decode(record.data)
            remote = remote_of(obj, self._remotes.identity)
            if remote is not None:
                table[remote.group, remote.version] = remote
            elif is_local(obj) and reason_of(obj) != "Local":
                await self.write_condition(record.key, None)
        for key in [key for key in self._checks if key not in table]:
            self._checks.pop(key).stop()
            self._remotes.discovered.pop(key, None)
        for key, remote in table.items():
            check = self._checks.get(key)
            if check is None:
                check = self._checks[key] = _Check(self, remote)
                check.task = tasks.start(check.run(), f"check-{remote.name}")
            table[key] = check.update(remote, self._service_state(remote))
        self._remotes.table = table

    def _service_state(self, remote: Remote) -> tuple[object, ...]:
        key, store = objects.key_of(remote.namespace, remote.service), self._store
        records = (store.collection(SERVICES).get(key), store.collection(ENDPOINTS).get(key))
        return tuple(None if record is None else record.data for record in records)

    async def check(self, remote: Remote) -> Condition:
        """Check *remote* and return its ``Available`` condition."""
        if (problem := missing(self._store, remote)) is not None:
            return problem
        async with self._slots:
            attempts = [asyncio.ensure_future(self._extensions.check(remote)) for _ in range(_ATTEMPTS)]
            try:
                for attempt in asyncio.as_completed(attempts):
                    try:
                        await attempt
                    except ExtensionRequestError as error:
                        problem = ("False", "FailedDiscoveryCheck", str(error))
                    else:
                        return _PASSED
            finally:
                for attempt in attempts:
                    attempt.cancel()
                await asyncio.gather(*attempts, return_exceptions=True)
        assert problem is not None
        return problem

    def mark(self, remote: Remote, condition: Condition) -> Remote:
        """Apply *condition* to the table, before it is written to the store; return the updated *remote*."""
        status, reason, _ = condition
        key, marked = (remote.group, remote.version), replace(remote, available=status == "True")
        if remote.available and not marked.available:
            self._remotes.losses[remote.name, reason] += 1
        if self._remotes.table.get(key) == remote:
            self._remotes.table = {**self._remotes.table, key: marked}
        return marked

    async def write_condition(self, name: str, condition: Condition | None) -> None:
        """Write *condition*, ``None`` for a local API service, to the status of an API service if it differs."""

        before: Object | None = None

        def decide(current: Record | None) -> Outcome:
            nonlocal before
            before, obj = None, None if current is None else objects.decode(current.data)
            if obj is None or is_local(obj) != (condition is None):
                return Keep()
            new = with_condition(obj, condition)
            if new == obj:
                return Keep()
            before = obj
            return Put(objects.encode_for_store(new))

        if self._store.collection(self._collection).get(name) is not None:
            await self._store.update(self._collection, name, decide)
        if before is not None and condition is not None:
            log_change(name, condition_of(before).get("status") or "", condition)

    async def discover(self, remote: Remote, *, reachable: bool) -> None:
        """Read the discovery document of *remote*; on failure, keep the previous resources and mark them as stale."""
        key = remote.group, remote.version
        previous = self._remotes.discovered.get(key, NOTHING)
        found = Discovered(previous.resources, False, previous.openapi_url)
        if reachable:
            try:
                async with self._slots:
                    resources = resources_of(await self._extensions.read(remote, remote.path))
                    found = Discovered(resources, True, await self._openapi_url(remote))
            except (ExtensionRequestError, ValueError) as error:
                _log.warning("Failed to read discovery of APIService", extra={"apiService": remote.name, "err": error})
        if key in self._checks:
            self._remotes.discovered[key] = found

    async def _openapi_url(self, remote: Remote) -> str:
        try:
            return openapi_url(await self._extensions.read(remote, "/openapi/v3"), remote.path)
        except ExtensionRequestError:
            return ""  # Extension API servers need not support OpenAPI v3.


class _Check:
    """Periodic check of a remote API service."""

    def __init__(self, owner: Availability, remote: Remote) -> None:
        self._owner, self._remote = owner, remote
        self._seen: object = None
        self._changed = asyncio.Event()
        self._available: bool | None = None
        self.task: asyncio.Task[None] | None = None

    def update(self, stored: Remote, service_state: object) -> Remote:
        """Return *stored* with the availability of the last check; trigger a check if a relevant field changed."""
        seen = (stored.service, stored.namespace, stored.port, stored.ca_bundle, stored.insecure, service_state)
        found = stored if self._available is None else replace(stored, available=self._available)
        if seen != self._seen or found != stored:  # The latter if another client wrote the condition.
            self._changed.set()
        self._seen = seen
        if found != self._remote:  # A check in progress is repeated if the object is another one.
            self._remote = found
        return found

    def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()

    async def run(self) -> None:
        """Check periodically and after changes until cancelled."""
        pauses = Backoff(_FIRST_RETRY_SECONDS, RESYNC_SECONDS)
        while True:
            self._changed.clear()
            remote, pause = self._remote, RESYNC_SECONDS
            condition = await self._owner.check(remote)
            if remote is not self._remote:
                continue  # Changed during the check.
            self._remote = remote = self._owner.mark(remote, condition)
            self._available = remote.available
            try:
                await self._owner.write_condition(remote.name, condition)
            except (StoreUnavailable, StoreRejected) as error:
                _log.warning("Failed to update APIService status", extra={"err": error})
                pause = pauses.next()
            await self._owner.discover(remote, reachable=condition == _PASSED)
            if condition[1] == "FailedDiscoveryCheck":
                pause = pauses.next()
            else:
                pauses.reset()
            try:
                async with asyncio.timeout(pause):
                    await self._changed.wait()
            except TimeoutError:
                continue


def missing(store: Store, remote: Remote) -> Condition | None:
    """Return the failed condition if the Service or endpoints of *remote* are missing, ``None`` otherwise."""
    where = f'service/{remote.service} in "{remote.namespace}"'
    service = find(store, SERVICES, remote.namespace, remote.service)
    if service is None:
        return "False", "ServiceNotFound", f"{where} is not present"
    spec = service.get("spec") or {}
    if (spec.get("type") or "ClusterIP") != "ClusterIP":
        return None
    port_name = name_of_port(spec, remote.port)
    if port_name is None:
        return "False", "ServicePortError", f"{where} is not listening on port {remote.port}"
    endpoints = find(store, ENDPOINTS, remote.namespace, remote.service)
    if endpoints is None:
        return "False", "EndpointsNotFound", f"cannot find endpoints for {where}"
    if not endpoints_of(endpoints, port_name):
        text = f'endpoints for {where} have no addresses with port name "{port_name}"'
        return "False", "MissingEndpoints", text
    return None


def with_condition(obj: Object, condition: Condition | None) -> Object:
    """Return *obj* with *condition*; the transition time is kept if the status is unchanged."""
    (new,) = local_status()["conditions"] if condition is None else [available(*condition)]
    conditions = list(dig(obj, ("status", "conditions")) or ())
    index = next((i for i, item in enumerate(conditions) if item.get("type") == new["type"]), None)
    if index is None:
        conditions.append(new)
    else:
        if conditions[index].get("status") == new["status"]:
            new["lastTransitionTime"] = conditions[index].get("lastTransitionTime")
        conditions[index] = new
    return {**obj, "status": {**(obj.get("status") or {}), "conditions": conditions}}


def condition_of(obj: Object) -> Object:
    """Return the condition ``Available``, empty if there is none."""
    conditions = dig(obj, ("status", "conditions")) or ()
    return next((item for item in conditions if item.get("type") == "Available"), {})


def reason_of(obj: Object) -> str:
    """Return the reason of the condition ``Available``, empty if there is none."""
    return condition_of(obj).get("reason") or ""


def log_change(name: str, old_status: str, condition: Condition) -> None:
    """Log the new *condition* of an API service if its status has changed."""
    status, reason, note = condition
    if status != old_status:
        fields = {"apiService": name, "oldStatus": old_status, "newStatus": status, "reason": reason, "note": note}
        _log.log(v_level(2), "changing APIService availability", extra=fields)
