"""Invariants that are verified at each change of the store."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from apiserver_stub.simulation.collections import (
    CLAIMS,
    CONFIG_MAPS,
    CRON_JOBS,
    DAEMON_SETS,
    DEFINITIONS,
    DEPLOYMENTS,
    EVENTS,
    JOBS,
    NAMESPACES,
    PODS,
    QUOTAS,
    REPLICA_SETS,
    SERVICES,
    SLICES,
    STATEFUL_SETS,
    VOLUMES,
    WIDGETS,
)
from apiserver_stub.simulation.convergence import deviations
from apiserver_stub.simulation.history import Entry, StoreHistory
from apiserver_stub.simulation.violations import Violations
from nodeagent.base.simulation.trace import Trace

_COUNTED = {CONFIG_MAPS: "count/configmaps", PODS: "pods", SERVICES: "services"}
_TRACED = {
    NAMESPACES,
    QUOTAS,
    SERVICES,
    PODS,
    CONFIG_MAPS,
    DEPLOYMENTS,
    REPLICA_SETS,
    JOBS,
    CRON_JOBS,
    CLAIMS,
    VOLUMES,
    SLICES,
    STATEFUL_SETS,
    DAEMON_SETS,
    WIDGETS,
    DEFINITIONS,
}
_REQUEST_SECONDS = 600.0
"""Time within which a request is executed; a write to a slow disk takes minutes."""
_QUOTA_REVISIONS = 40
"""Revisions after the creation of a quota in which requests that were admitted before may complete."""


class Invariants:
    """Observer of the store's changes."""

    def __init__(self, violations: Violations, trace: Trace, now: Callable[[], float]) -> None:
        self._violations, self._trace = violations, trace
        self.history = StoreHistory(violations.report, self.observe)
        self._now = now
        self._requested: dict[str, float] = {}
        self.observers: list[Callable[[str, Entry], None]] = []
        """Called after the verification of each change."""
        self._scheduled: set[tuple[str, str]] = set()
        """Jobs of cron jobs, by the UID of the cron job and the name of the job."""

    def request_deletion(self, key: str) -> None:
        """Record that a client requests the deletion of a config map, or of all in a namespace with a trailing slash.

        The request may be executed later, if its client is not informed of the result.
        """
        self._requested[key] = self._now() + _REQUEST_SECONDS

    def _is_requested(self, *keys: str) -> bool:
        return any(self._requested.get(key, -1.0) >= self._now() for key in keys)

    def observe(self, collection: str, entry: Entry) -> None:
        """Verify one change."""
        if collection in _TRACED:
            self._trace.add("change", f"{entry.type} {collection} {entry.key} {entry.revision}")
        self._violations.checked += 1
        after, before = entry.object(), entry.previous()
        metadata = after.get("metadata", {})
        if entry.type == "DELETED":
            self._deleted(collection, entry, metadata)
        elif entry.type == "ADDED":
            self._added(collection, entry, before)
        elif before is not None and before.get("metadata", {}).get("uid") != metadata.get("uid"):
            self._report(collection, entry, "changed its UID")
        if collection == SERVICES and entry.type != "DELETED":
            self._unique(entry, after)
        for observer in self.observers:
            observer(collection, entry)

    def _report(self, collection: str, entry: Entry, text: str) -> None:
        self._violations.report(f"{collection} {entry.key} {text} at {entry.revision}")

    def _deleted(self, collection: str, entry: Entry, metadata: Mapping[str, Any]) -> None:
        if metadata.get("finalizers"):
            self._report(collection, entry, f"was deleted with finalizers {metadata['finalizers']}")
        if collection == NAMESPACES:
            left = [
                f"{name} {key}"
                for name, state in self.history.current.items()
                for key in state
                if key.startswith(entry.key + "/") and name != EVENTS and "charges" not in name
            ]
            if left:
                self._report(collection, entry, f"was deleted before {left[0]}")
        if collection == CLAIMS:
            self._verify_unused(entry, metadata)
        if collection == CONFIG_MAPS:
            namespace = entry.key.partition("/")[0]
            owners = metadata.get("ownerReferences") or []
            if not self._is_requested(entry.key, namespace + "/") and not self._terminating(namespace):
                existing = [owner for owner in owners if self._exists(owner, namespace)]
                if not owners or existing:
                    self._report(collection, entry, "was deleted without a request, and not because of its owners")

    def _exists(self, owner: Mapping[str, Any], namespace: str) -> bool:
        state = self.history.current.get(CONFIG_MAPS, {}).get(f"{namespace}/{owner['name']}")
        metadata = state.object()["metadata"] if state is not None else {}
        return metadata.get("uid") == owner["uid"] and "deletionTimestamp" not in metadata

    def _terminating(self, namespace: str) -> bool:
        state = self.history.current.get(NAMESPACES, {}).get(namespace)
        return state is None or "deletionTimestamp" in state.object()["metadata"]

    def _added(self, collection: str, entry: Entry, before: dict[str, Any] | None) -> None:
        if before is not None:
            self._report(collection, entry, "was created twice")
        if collection == JOBS:
            self._verify_scheduled(entry)
        if collection not in _COUNTED:
            return
        namespace = entry.key.partition("/")[0]
        for key, quota in self.history.current.get(QUOTAS, {}).items():
            spec, uid = quota.object()["spec"], quota.object()["metadata"]["uid"]
            limit = spec["hard"].get(_COUNTED[collection])
            if limit is None or not key.startswith(namespace + "/"):
                continue
            created = self._created_at(QUOTAS, key, uid)
            count = sum(
                each.startswith(namespace + "/") and (collection != PODS or not _finished(found.object()))
                for each, found in self.history.current[collection].items()
            )
            if count > int(limit) and entry.revision > created + _QUOTA_REVISIONS:
                self._report(collection, entry, f"exceeds the quota: {count} of {limit}")

    def _verify_scheduled(self, entry: Entry) -> None:
        """Verify a new job of a cron job, whose name contains the scheduled time."""
        metadata = entry.object()["metadata"]
        for owner in metadata.get("ownerReferences") or ():
            key = (owner["uid"], metadata["name"])
            if key in self._scheduled:
                self._report(JOBS, entry, "was created again for the same time")
            self._scheduled.add(key)
            if owner["name"] != "forbid":
                continue
            for name, other in self.history.current[JOBS].items():
                found = other.object()
                owners = {each["uid"] for each in found["metadata"].get("ownerReferences") or ()}
                if name != entry.key and owner["uid"] in owners and not _completed(found):
                    self._report(JOBS, entry, f"was created while {name} is active")

    def _verify_unused(self, entry: Entry, metadata: Mapping[str, Any]) -> None:
        """Verify that no pod that was scheduled before the deletion of a claim was requested uses it."""
        deleted_at = self._first(
            CLAIMS, entry.key, metadata["uid"], lambda each: "deletionTimestamp" in each["metadata"]
        )
        namespace, _, name = entry.key.partition("/")
        for key, other in self.history.current.get(PODS, {}).items():
            pod = other.object()
            claims = {
                each.get("persistentVolumeClaim", {}).get("claimName") for each in pod["spec"].get("volumes") or ()
            }
            if not key.startswith(namespace + "/") or name not in claims or _finished(pod):
                continue
            scheduled_at = self._first(
                PODS, key, pod["metadata"]["uid"], lambda each: bool(each["spec"].get("nodeName"))
            )
            if 0 < scheduled_at < deleted_at:
                self._report(CLAIMS, entry, f"was deleted while pod {key} uses it")

    def _first(self, collection: str, key: str, uid: str, matches: Callable[[dict[str, Any]], bool]) -> int:
        """Return the first retained revision at which an object matches; 0 if it never did."""
        for each in self.history.changes(collection, 0):
            if each.key == key and (found := each.object())["metadata"]["uid"] == uid and matches(found):
                return each.revision
        return 0

    def _created_at(self, collection: str, key: str, uid: str) -> int:
        for each in self.history.changes(collection, 0):
            if each.key == key and each.type == "ADDED" and each.object()["metadata"]["uid"] == uid:
                return each.revision
        return 0

    def _unique(self, entry: Entry, service: Mapping[str, Any]) -> None:
        addresses, ports = _allocated(service)
        for key, other in self.history.current[SERVICES].items():
            if key == entry.key:
                continue
            other_addresses, other_ports = _allocated(other.object())
            if shared := (addresses & other_addresses) | (ports & other_ports):
                self._report(SERVICES, entry, f"shares {sorted(shared)[0]} with {key}")

    def unconverged(self) -> str:
        """Return the first deviation from the converged state, or an empty string."""
        self._violations.checked += 1
        return next(deviations(self.history.current), "")


def _finished(pod: Mapping[str, Any]) -> bool:
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def _allocated(service: Mapping[str, Any]) -> tuple[set[Any], set[Any]]:
    spec = service["spec"]
    addresses = {address for address in spec.get("clusterIPs") or () if address != "None"}
    ports = {(port["protocol"], port["nodePort"]) for port in spec.get("ports") or () if port.get("nodePort")}
    return addresses, ports


def _completed(job: Mapping[str, Any]) -> bool:
    conditions = job.get("status", {}).get("conditions") or ()
    return any(each["type"] in ("Complete", "Failed") and each["status"] == "True" for each in conditions)
