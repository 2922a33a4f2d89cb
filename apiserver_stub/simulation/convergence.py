"""The state that the controllers of the simulated server reach after a time without faults."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from apiserver_stub.simulation.collections import (
    BUDGETS,
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
    WIDGETS,
    WIDGETS_DEFINITION,
)
from apiserver_stub.simulation.history import Entry

_INTERNAL = ("charges", "ranges", "masterleases")
"""Endings of the collections that contain no objects of clients."""
State = Mapping[str, Mapping[str, Entry]]
"""Objects by collection and key."""
Object = dict[str, Any]


def deviations(state: State) -> Iterator[str]:
    """Yield the deviations of *state* from the converged one."""
    pods = _objects(state, PODS)
    yield from _namespaces(state)
    yield from _dependents(state)
    yield from _deployments(state, pods)
    yield from _sets(state, pods)
    yield from _jobs(state)
    yield from _budgets(state, pods)
    yield from _endpoints(state, pods)
    if WIDGETS_DEFINITION not in state.get(DEFINITIONS, {}):
        for key in state.get(WIDGETS, {}):
            yield f"{WIDGETS} {key} exists without its definition"


def _objects(state: State, collection: str) -> dict[str, Object]:
    return {key: entry.object() for key, entry in state.get(collection, {}).items()}


def _namespaces(state: State) -> Iterator[str]:
    for key, found in _objects(state, NAMESPACES).items():
        if "deletionTimestamp" in found["metadata"]:
            yield f"namespace {key} is still being deleted"


def _dependents(state: State) -> Iterator[str]:
    """Yield the objects whose namespace or owners no longer exist, and those whose deletion does not end."""
    uids = {entry.object().get("metadata", {}).get("uid") for found in state.values() for entry in found.values()}
    for collection, found in state.items():
        if collection == EVENTS or collection.endswith(_INTERNAL):
            continue
        for key, entry in found.items():
            metadata = entry.object().get("metadata", {})
            if "/" in key and _namespace(key) not in state.get(NAMESPACES, {}):
                yield f"{collection} {key} is in a namespace that does not exist"
            owners = metadata.get("ownerReferences")
            if owners and not any(owner["uid"] in uids for owner in owners):
                yield f"{collection} {key} was not collected after its owners"
            if "deletionTimestamp" in metadata and not metadata.get("finalizers"):
                yield f"{collection} {key} is still being deleted"


def _deployments(state: State, pods: Mapping[str, Object]) -> Iterator[str]:
    for key, deployment in _objects(state, DEPLOYMENTS).items():
        namespace, uid = _namespace(key), deployment["metadata"]["uid"]
        if _limited(state, namespace):
            continue
        sets = {each["metadata"]["uid"] for each in _objects(state, REPLICA_SETS).values() if _owned_by(each, uid)}
        count = sum(
            any(_owned_by(pod, each) for each in sets) for name, pod in pods.items() if _namespace(name) == namespace
        )
        desired, status = deployment["spec"]["replicas"], deployment.get("status", {})
        ready, updated = status.get("readyReplicas", 0), status.get("updatedReplicas", 0)
        if count != desired or ready != desired:
            yield f"deployment {key} has {count} pods, {ready} ready, desired {desired}"
        if updated != desired:
            yield f"deployment {key} has {updated} updated pods, desired {desired}"
        if status.get("observedGeneration") != deployment["metadata"]["generation"]:
            yield f"deployment {key} has the status of an earlier generation"


def _sets(state: State, pods: Mapping[str, Object]) -> Iterator[str]:
    for collection in (STATEFUL_SETS, DAEMON_SETS):
        for key, found in _objects(state, collection).items():
            status, image = found.get("status", {}), _image(found["spec"]["template"])
            desired = found["spec"].get("replicas", 1)  # A daemon set has one pod, because there is one node.
            owned = [pod for pod in pods.values() if _owned_by(pod, found["metadata"]["uid"])]
            ready = status.get("readyReplicas" if collection == STATEFUL_SETS else "numberReady", 0)
            if len(owned) != desired or ready != desired:
                yield f"{collection} {key} has {len(owned)} pods, {ready} ready, desired {desired}"
            if any(_image(pod) != image for pod in owned):
                yield f"{collection} {key} has pods with an earlier image"


def _jobs(state: State) -> Iterator[str]:
    for key, job in _objects(state, JOBS).items():
        status, completions = job.get("status", {}), job["spec"]["completions"]
        conditions = {each["type"] for each in status.get("conditions", ()) if each["status"] == "True"}
        if not conditions & {"Complete", "Failed"} and not _limited(state, _namespace(key)):
            yield f"job {key} is not complete"
        elif "Complete" in conditions and status.get("succeeded", 0) != completions:
            yield f"job {key} is complete with {status.get('succeeded')} of {completions}"


def _budgets(state: State, pods: Mapping[str, Object]) -> Iterator[str]:
    for key, budget in _objects(state, BUDGETS).items():
        selected = _selected(pods, _namespace(key), budget["spec"]["selector"]["matchLabels"])
        healthy = sum(map(_is_ready, selected))
        if budget.get("status", {}).get("currentHealthy") != healthy:
            yield f"budget {key} has {budget.get('status')}, but {healthy} pods are healthy"


def _endpoints(state: State, pods: Mapping[str, Object]) -> Iterator[str]:
    for key, service in _objects(state, SERVICES).items():
        selector = service["spec"].get("selector")
        if not selector:
            continue
        namespace, _, name = key.partition("/")
        expected = {pod["status"]["podIP"] for pod in _selected(pods, namespace, selector) if _is_ready(pod)}
        published = {
            address
            for each in _objects(state, SLICES).values()
            if each["metadata"].get("labels", {}).get("kubernetes.io/service-name") == name
            and each["metadata"]["namespace"] == namespace
            for endpoint in each.get("endpoints") or ()
            if endpoint["conditions"].get("ready")
            for address in endpoint["addresses"]
        }
        if expected != published:
            yield f"endpoint slices of {key} contain {sorted(published)}, ready pods are {sorted(expected)}"


def _namespace(key: str) -> str:
    return key.partition("/")[0]


def _limited(state: State, namespace: str) -> bool:
    """Return whether a quota may prevent pods in a namespace."""
    return any(_namespace(key) == namespace for key in state.get(QUOTAS, {}))


def _selected(pods: Mapping[str, Object], namespace: str, selector: Mapping[str, str]) -> list[Object]:
    return [
        pod
        for key, pod in pods.items()
        if _namespace(key) == namespace and selector.items() <= (pod["metadata"].get("labels") or {}).items()
    ]


def _image(pod: Object) -> str:
    image: str = pod["spec"]["containers"][0]["image"]
    return image


def _owned_by(found: Object, uid: str) -> bool:
    return any(owner["uid"] == uid for owner in found["metadata"].get("ownerReferences") or ())


def _is_ready(pod: Object) -> bool:
    status = pod.get("status", {})
    conditions = {each["type"]: each["status"] for each in status.get("conditions") or ()}
    terminating = "deletionTimestamp" in pod["metadata"]
    return conditions.get("Ready") == "True" and status.get("phase") == "Running" and not terminating
