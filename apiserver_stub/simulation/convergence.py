"""The state that the controllers of the simulated server reach after a time without faults."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from apiserver_stub.simulation.collections import (
    BUDGETS,
    CLAIMS,
    CRON_JOBS,
    DAEMON_SETS,
    DEFINITIONS,
    DEPLOYMENTS,
    EVENTS,
    JOBS,
    NAMESPACES,
    NODES,
    PODS,
    QUOTAS,
    REPLICA_SETS,
    SERVICES,
    SLICES,
    STATEFUL_SETS,
    VOLUMES,
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
    yield from _nodes(state)
    yield from _namespaces(state)
    yield from _dependents(state)
    yield from _deployments(state, pods)
    yield from _sets(state, pods)
    yield from _jobs(state)
    yield from _cron_jobs(state)
    yield from _claims(state, pods)
    yield from _volumes(state)
    yield from _budgets(state, pods)
    yield from _endpoints(state, pods)
    if WIDGETS_DEFINITION not in state.get(DEFINITIONS, {}):
        for key in state.get(WIDGETS, {}):
            yield f"{WIDGETS} {key} exists without its definition"


def _objects(state: State, collection: str) -> dict[str, Object]:
    return {key: entry.object() for key, entry in state.get(collection, {}).items()}


def _nodes(state: State) -> Iterator[str]:
    for key, node in _objects(state, NODES).items():
        conditions = {each["type"]: each["status"] for each in node.get("status", {}).get("conditions") or ()}
        if conditions.get("Ready") != "True":
            yield f"node {key} is not ready"
        if taints := [each["key"] for each in node["spec"].get("taints") or ()]:
            yield f"node {key} has the taints {taints}"


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
        scheduled = bool(job["metadata"].get("ownerReferences"))  # Cron jobs create jobs until the end.
        conditions = {each["type"] for each in status.get("conditions", ()) if each["status"] == "True"}
        if not conditions & {"Complete", "Failed"} and not scheduled and not _limited(state, _namespace(key)):
            yield f"job {key} is not complete"
        elif "Complete" in conditions and status.get("succeeded", 0) != completions:
            yield f"job {key} is complete with {status.get('succeeded')} of {completions}"


def _cron_jobs(state: State) -> Iterator[str]:
    jobs = _objects(state, JOBS).values()
    for key, cron_job in _objects(state, CRON_JOBS).items():
        owned = [job for job in jobs if _owned_by(job, cron_job["metadata"]["uid"])]
        complete = sum(job.get("status", {}).get("succeeded", 0) for job in owned)
        if complete > cron_job["spec"]["successfulJobsHistoryLimit"]:
            yield f"cron job {key} retains {complete} jobs that are complete"


def _claims(state: State, pods: Mapping[str, Object]) -> Iterator[str]:
    volumes = _objects(state, VOLUMES)
    free = [key for key, each in volumes.items() if "claimRef" not in each["spec"] and not _is_deleted(each)]
    for key, claim in _objects(state, CLAIMS).items():
        users = {name: pod for name, pod in pods.items() if f"{_namespace(name)}/{_claim_of(pod)}" == key}
        name, phase = claim["spec"].get("volumeName", ""), claim.get("status", {}).get("phase")
        holder = volumes[name]["spec"].get("claimRef", {}).get("uid") if name in volumes else None
        bound = holder == claim["metadata"]["uid"]
        if _is_deleted(claim):
            if not users:
                yield f"claim {key} is still being deleted, but no pod uses it"
        elif phase == "Bound":
            if not bound:
                yield f"claim {key} is bound to volume {name}, which has the claim {holder}"
            for user, pod in users.items():
                if pod.get("status", {}).get("phase") != "Running":
                    yield f"pod {user} does not run with its claim"
        elif phase == "Pending" and (bound or (name in free if name else free)):
            yield f"claim {key} is not bound, but {name or free} are free"


def _volumes(state: State) -> Iterator[str]:
    uids = {claim["metadata"]["uid"] for claim in _objects(state, CLAIMS).values()}
    for key, volume in _objects(state, VOLUMES).items():
        phase, claim = volume.get("status", {}).get("phase"), volume["spec"].get("claimRef", {}).get("uid")
        expected = "Available" if claim is None else "Bound" if claim in uids else "Released"
        if phase != expected:
            yield f"volume {key} is {phase}, expected {expected}"
        if _is_deleted(volume) and claim not in uids:
            yield f"volume {key} is still being deleted"


def _is_deleted(found: Object) -> bool:
    return "deletionTimestamp" in found["metadata"]


def _claim_of(pod: Object) -> str | None:
    """Return the name of the claim that a pod uses."""
    volumes = pod["spec"].get("volumes") or ()
    return next(
        (each["persistentVolumeClaim"]["claimName"] for each in volumes if "persistentVolumeClaim" in each), None
    )


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
