"""Invariants that are verified at each change of the store, and the convergence of the controllers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from apiserver_stub.simulation.history import Entry, StoreHistory, decode
from apiserver_stub.simulation.violations import Violations
from nodeagent.base.simulation.trace import Trace

NAMESPACES, QUOTAS, SERVICES = "core/namespaces", "core/resourcequotas", "core/services"
PODS, CONFIG_MAPS, EVENTS = "core/pods", "core/configmaps", "core/events"
DEPLOYMENTS, REPLICA_SETS, JOBS = "apps/deployments", "apps/replicasets", "batch/jobs"
STATEFUL_SETS, DAEMON_SETS, BUDGETS = "apps/statefulsets", "apps/daemonsets", "policy/poddisruptionbudgets"
DEFINITIONS, WIDGETS = "apiextensions.k8s.io/customresourcedefinitions", "simulated.test/widgets"
WIDGETS_DEFINITION = "widgets.simulated.test"
SLICES = "discovery.k8s.io/endpointslices"
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
    SLICES,
    STATEFUL_SETS,
    DAEMON_SETS,
    WIDGETS,
    DEFINITIONS,
}
_REQUEST_SECONDS = 180.0
_QUOTA_REVISIONS = 40
"""Revisions after the creation of a quota in which requests that were admitted before may complete."""


class Invariants:
    """Observer of the store's changes."""

    def __init__(self, violations: Violations, trace: Trace, now: Callable[[], float]) -> None:
        self._violations, self._trace = violations, trace
        self.history = StoreHistory(violations.report, self.observe)
        self._now = now
        self._requested: dict[str, float] = {}

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

    # --- convergence ------------------------------------------------------------------------------------------

    def unconverged(self) -> str:
        """Return the first deviation from the converged state, or an empty string."""
        self._violations.checked += 1
        return next(self._deviations(), "")

    def _objects(self, collection: str) -> dict[str, dict[str, Any]]:
        return {key: entry.object() for key, entry in self.history.current.get(collection, {}).items()}

    def _deviations(self) -> Iterator[str]:
        namespaces = self._objects(NAMESPACES)
        for key, found in namespaces.items():
            if "deletionTimestamp" in found["metadata"]:
                yield f"namespace {key} is still being deleted"
        uids = {
            decode(entry.data).get("metadata", {}).get("uid")
            for state in self.history.current.values()
            for entry in state.values()
        }
        pods = self._objects(PODS)
        for collection, state in self.history.current.items():
            if collection == EVENTS or collection.endswith(("charges", "ranges", "masterleases")):
                continue
            for key, entry in state.items():
                metadata = entry.object().get("metadata", {})
                if "/" in key and key.partition("/")[0] not in namespaces:
                    yield f"{collection} {key} is in a namespace that does not exist"
                owners = metadata.get("ownerReferences")
                if owners and not any(owner["uid"] in uids for owner in owners):
                    yield f"{collection} {key} was not collected after its owners"
                if "deletionTimestamp" in metadata and not metadata.get("finalizers"):
                    yield f"{collection} {key} is still being deleted"
        for key, deployment in self._objects(DEPLOYMENTS).items():
            namespace, uid = key.partition("/")[0], deployment["metadata"]["uid"]
            sets = {each["metadata"]["uid"] for each in self._objects(REPLICA_SETS).values() if _owned_by(each, uid)}
            count = sum(
                any(owner["uid"] in sets for owner in pod["metadata"].get("ownerReferences") or ())
                for name, pod in pods.items()
                if name.startswith(namespace + "/")
            )
            desired = deployment["spec"]["replicas"]
            status = deployment.get("status", {})
            if self._limited(namespace):
                continue
            if count != desired or status.get("readyReplicas", 0) != desired:
                yield f"deployment {key} has {count} pods, {status.get('readyReplicas', 0)} ready, desired {desired}"
            if status.get("updatedReplicas", 0) != desired:
                yield f"deployment {key} has {status.get('updatedReplicas', 0)} updated pods, desired {desired}"
            if status.get("observedGeneration") != deployment["metadata"]["generation"]:
                yield f"deployment {key} has the status of an earlier generation"
        yield from self._sets(pods)
        for key, job in self._objects(JOBS).items():
            conditions = {
                each["type"] for each in job.get("status", {}).get("conditions", ()) if each["status"] == "True"
            }
            if not conditions & {"Complete", "Failed"} and not self._limited(key.partition("/")[0]):
                yield f"job {key} is not complete"
            elif "Complete" in conditions and job["status"].get("succeeded", 0) != job["spec"]["completions"]:
                yield f"job {key} is complete with {job['status'].get('succeeded')} of {job['spec']['completions']}"
        for key, service in self._objects(SERVICES).items():
            selector = service["spec"].get("selector")
            if not selector:
                continue
            namespace, _, name = key.partition("/")
            expected = {
                pod["status"]["podIP"]
                for pod_key, pod in pods.items()
                if pod_key.startswith(namespace + "/") and _ready(pod)
                if selector.items() <= (pod["metadata"].get("labels") or {}).items()
            }
            published = {
                address
                for each in self._objects(SLICES).values()
                if each["metadata"].get("labels", {}).get("kubernetes.io/service-name") == name
                and each["metadata"]["namespace"] == namespace
                for endpoint in each.get("endpoints") or ()
                if endpoint["conditions"].get("ready")
                for address in endpoint["addresses"]
            }
            if expected != published:
                yield f"endpoint slices of {key} contain {sorted(published)}, ready pods are {sorted(expected)}"

    def _sets(self, pods: Mapping[str, dict[str, Any]]) -> Iterator[str]:
        for collection in (STATEFUL_SETS, DAEMON_SETS):
            for key, found in self._objects(collection).items():
                status, image = found.get("status", {}), _image(found["spec"]["template"])
                desired = found["spec"].get("replicas", 1)  # A daemon set has one pod, because there is one node.
                owned = [pod for pod in pods.values() if _owned_by(pod, found["metadata"]["uid"])]
                ready = status.get("readyReplicas", 0) if collection == STATEFUL_SETS else status.get("numberReady", 0)
                if len(owned) != desired or ready != desired:
                    yield f"{collection} {key} has {len(owned)} pods, {ready} ready, desired {desired}"
                if any(_image(pod) != image for pod in owned):
                    yield f"{collection} {key} has pods with an earlier image"
        for key, budget in self._objects(BUDGETS).items():
            selected = budget["spec"]["selector"]["matchLabels"].items()
            healthy = sum(
                _ready(pod)
                for pod_key, pod in pods.items()
                if pod_key.partition("/")[0] == key.partition("/")[0]
                and selected <= (pod["metadata"].get("labels") or {}).items()
            )
            if budget.get("status", {}).get("currentHealthy") != healthy:
                yield f"budget {key} has {budget.get('status')}, but {healthy} pods are healthy"
        if WIDGETS_DEFINITION not in self.history.current.get(DEFINITIONS, {}):
            for key in self.history.current.get(WIDGETS, {}):
                yield f"{WIDGETS} {key} exists without its definition"

    def _limited(self, namespace: str) -> bool:
        """Return whether a quota may prevent pods in a namespace."""
        return any(key.startswith(namespace + "/") for key in self.history.current.get(QUOTAS, {}))


def _image(pod: Mapping[str, Any]) -> str:
    image: str = pod["spec"]["containers"][0]["image"]
    return image


def _owned_by(found: Mapping[str, Any], uid: str) -> bool:
    return any(owner["uid"] == uid for owner in found["metadata"].get("ownerReferences") or ())


def _finished(pod: Mapping[str, Any]) -> bool:
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def _ready(pod: Mapping[str, Any]) -> bool:
    status = pod.get("status", {})
    conditions = {each["type"]: each["status"] for each in status.get("conditions") or ()}
    terminating = "deletionTimestamp" in pod["metadata"]
    return conditions.get("Ready") == "True" and status.get("phase") == "Running" and not terminating


def _allocated(service: Mapping[str, Any]) -> tuple[set[Any], set[Any]]:
    spec = service["spec"]
    addresses = {address for address in spec.get("clusterIPs") or () if address != "None"}
    ports = {(port["protocol"], port["nodePort"]) for port in spec.get("ports") or () if port.get("nodePort")}
    return addresses, ports
