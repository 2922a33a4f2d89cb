"""Scenarios about tables: every kind in its states, as lists, objects and watches. No I/O."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import yaml

from tests.differential import catalog
from tests.differential.edits import Json
from tests.differential.scenarios import NAMESPACE, Scenario
from tests.differential.sequences.kinds import CONFIG_MAP, POD
from tests.differential.sequences.script import JSON_PATCH, Script, version

STATES = Path(__file__).parent.parent / "states.yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
_BETA_TABLE = TABLE.replace("v=v1", "v=v1beta1")
_KUBECTL = f"{TABLE},{_BETA_TABLE},application/json"
_PARTIAL = TABLE.replace("Table", "PartialObjectMetadata")
_PARTIAL_LIST = TABLE.replace("Table", "PartialObjectMetadataList")
_SELECTOR = f"labelSelector=tables%3D{NAMESPACE}"
_MODES = ("Metadata", "Object", "None", "Odd")
_ONLY_STATES = ("apiservices", "clustertrustbundles", "pods", "services")
"""Kinds whose base objects refer to others or to addresses that only one scenario can have."""
_OWN_NAMES = ("apiservices", "clustertrustbundles")
"""Kinds whose names depend on the specification."""
_SETTLED = {"apiservices": "ServiceNotFound"}
_CONTROLLED = ("namespaces", "nodes", "persistentvolumeclaims", "persistentvolumes")
"""Kinds whose objects, and deleted objects above all, controllers of the bundled server change."""
_DECISIONS = ("Approved", "Denied")


def generate() -> Iterator[Scenario]:
    """Yield a scenario per kind, and those about the shapes of responses."""
    states = _states()
    for resource in catalog.resources():
        script = Script()
        if resource.stored:
            _of_kind(script, resource, states.get((resource.api_version, resource.kind), []))
        else:
            _of_review(script, resource)
        yield Scenario(f"tables-{resource.name.partition('.')[0]}-{resource.name.count('.')}", script.steps)
    for sequence in (watches, subresources, errors):
        script = Script()
        sequence(script)
        yield Scenario(f"tables-{sequence.__name__}", script.steps)


def _states() -> dict[tuple[str, str], list[Json]]:
    found: dict[tuple[str, str], list[Json]] = {}
    for document in yaml.safe_load_all(STATES.read_text()):
        found.setdefault((document["apiVersion"], document["kind"]), []).append(document)
    return found


def _of_kind(script: Script, resource: catalog.Resource, states: list[Json]) -> None:
    path = resource.path.replace(f"/{catalog.NAMESPACE}/", f"/{NAMESPACE}/")
    bases = (
        []
        if resource.plural in _ONLY_STATES
        else json.loads(json.dumps(resource.bases).replace(f'"{catalog.NAMESPACE}"', f'"{NAMESPACE}"'))
    )
    until = _SETTLED.get(resource.plural, "")
    script.get(path, _SELECTOR, TABLE)
    items: list[str] = []
    deleted: set[str] = set()
    for state in (*bases, *states):
        items.append(_create(script, resource, path, state))
        if state.get("deleted"):
            deleted.add(items[-1])
    script.get(path, f"{_SELECTOR}&includeObject=None", TABLE, until)
    first = next(item for item in items if item not in deleted)
    for mode in _MODES:
        script.get(first, f"includeObject={mode}", TABLE)
        script.get(
            path, f"{_SELECTOR}&fieldSelector=metadata.name%3D{first.rpartition('/')[2]}&includeObject={mode}", TABLE
        )
    script.get(first, "", _KUBECTL)
    script.get(path, f"{_SELECTOR}&limit=1&includeObject=None", _BETA_TABLE)
    script.get(first, "", _PARTIAL)
    script.get(path, f"{_SELECTOR}&fieldSelector=metadata.name%3D{first.rpartition('/')[2]}", _PARTIAL_LIST)
    if resource.name == "events":
        script.get(path.replace("/api/v1/", "/apis/events.k8s.io/v1/"), f"{_SELECTOR}&includeObject=None", TABLE)
    watch = f"{_SELECTOR}&watch=true&timeoutSeconds=1&includeObject=None"
    name = f"&fieldSelector=metadata.name%3D{first.rpartition('/')[2]}" if resource.plural in _CONTROLLED else ""
    script.get(path, f"{watch}{name}", TABLE)
    script.patch(first, {"metadata": {"annotations": {"tables": "x"}}}, query="includeObject=None", accept=TABLE)
    for item in items:
        if item in deleted and resource.plural in _CONTROLLED:
            continue
        if item in deleted:
            script.patch(item, {"metadata": {"finalizers": None}})
        else:
            script.delete(item, query="gracePeriodSeconds=0&includeObject=None", accept=TABLE if item == first else "")


def _create(script: Script, resource: catalog.Resource, path: str, state: Json) -> str:
    """Create the object of *state* with its status, and return its path."""
    obj = json.loads(json.dumps({name: value for name, value in state.items() if name != "deleted"}))
    metadata = obj["metadata"]
    metadata["labels"] = {**metadata.get("labels", {}), "tables": NAMESPACE}
    if not resource.namespaced and resource.plural not in _OWN_NAMES:
        metadata["name"] = f"{NAMESPACE}-{metadata['name']}"
    metadata.pop("namespace", None)
    item = f"{path}/{metadata['name']}"
    status = obj.pop("status", None) if resource.has_status else None
    script.post(path, obj)
    if resource.plural == "certificatesigningrequests" and status:
        decided = [condition for condition in status["conditions"] if condition["type"] in _DECISIONS]
        script.patch(f"{item}/approval", {"status": {"conditions": decided}})
    if status:
        script.patch(f"{item}/status", {"status": status}, query="includeObject=None", accept=TABLE)
    if state.get("deleted"):
        script.delete(item, query="includeObject=None", accept=TABLE)
    return item


def _of_review(script: Script, resource: catalog.Resource) -> None:
    """Create what is not stored, which has no table."""
    path = resource.path.replace(f"/{catalog.NAMESPACE}/", f"/{NAMESPACE}/")
    base = json.loads(json.dumps(resource.bases[0]).replace(catalog.NAMESPACE, NAMESPACE))
    for accept in (TABLE, _PARTIAL) if "rules" in resource.plural else (TABLE, _PARTIAL, _KUBECTL):
        script.post(path, base, accept=accept)  # The rules of a user differ, see accepted.yaml.


def watches(script: Script) -> None:
    """Watch changes from a resource version on, in every shape."""
    for kind in (CONFIG_MAP, POD):
        made = script.post(kind.path, kind.object("a"))
        script.patch(kind.item("a"), {"metadata": {"labels": {"x": "1"}}})
        script.post(kind.path, kind.object("b"))
        if kind is POD:  # Upstream writes a pod once more before a deletion without a grace period.
            script.patch(f"{kind.item('a')}/status", {"status": {"phase": "Succeeded"}})
        else:
            script.delete(kind.item("a"))
        watch = f"watch=true&timeoutSeconds=1&resourceVersion={version(made)}"
        for accept in (TABLE, _BETA_TABLE, _KUBECTL, _PARTIAL):
            script.get(kind.path, watch, accept)
        for mode in _MODES:
            script.get(kind.path, f"{watch}&includeObject={mode}", TABLE)
        for selector in ("labelSelector=x%3D1", "fieldSelector=metadata.name%3Db", "fieldSelector=metadata.name%3Dz"):
            script.get(kind.path, f"{watch}&{selector}", TABLE)
        script.get(kind.path, "watch=true&timeoutSeconds=1&fieldSelector=metadata.name%3Db", TABLE)
        script.get(kind.path, "watch=true&timeoutSeconds=1&resourceVersion=0&fieldSelector=metadata.name%3Db", TABLE)
        script.get(f"{kind.path}/b", "watch=true&timeoutSeconds=1", TABLE)
        script.get(kind.item("b").replace("/namespaces/", "/watch/namespaces/"), "timeoutSeconds=1", TABLE)
    script.get(
        POD.path,
        f"watch=true&timeoutSeconds=1&resourceVersion={version(made)}&fieldSelector=status.phase%3DPending",
        TABLE,
    )


def subresources(script: Script) -> None:
    """Read and write through subresources, and with every verb, in tables."""
    item = POD.item("a")
    script.post(POD.path, POD.object("a"), "dryRun=All", accept=TABLE)
    made = script.post(POD.path, POD.object("a"), accept=TABLE)
    script.get(f"{item}/status", "", TABLE)
    script.patch(f"{item}/status", {"status": {"phase": "Failed"}}, accept=TABLE)
    script.patch(f"{item}/status", {"status": {"phase": "Running"}}, query="includeObject=None", accept=_BETA_TABLE)
    script.get(f"{item}/ephemeralcontainers", "", TABLE)
    script.put(item, POD.object("a", resourceVersion=version(made)), accept=TABLE)
    script.patch(item, [{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}], JSON_PATCH, accept=TABLE)
    target = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n"}}
    script.post(f"{item}/binding", target, accept=TABLE)
    script.post(
        f"{item}/eviction", {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}}, accept=TABLE
    )
    script.delete(item, query="gracePeriodSeconds=0", accept=TABLE)
    accounts = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
    script.post(accounts, {"metadata": {"name": "a"}})
    token = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    script.post(f"{accounts}/a/token", token, accept=TABLE)
    script.post(f"{accounts}/a/token", token, accept=_KUBECTL)
    script.get(f"/api/v1/namespaces/{NAMESPACE}", "includeObject=None", TABLE)
    script.delete(POD.path, accept=TABLE)
    script.post(POD.path, POD.object("c"))
    script.delete(POD.path, query="gracePeriodSeconds=0&includeObject=None", accept=TABLE)


def errors(script: Script) -> None:
    """Request errors and unusual shapes."""
    script.get(POD.item("zzz"), "", TABLE)
    script.post(POD.path, {}, accept=TABLE)
    script.post(POD.path, POD.object("a"))
    for accept in (
        TABLE.replace("v=v1", "v=v2"),
        TABLE.replace("g=meta.k8s.io", "g=x"),
        TABLE.replace("as=Table", "as=Odd"),
        "application/yaml;as=Table;v=v1;g=meta.k8s.io",
        "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io",
        "*/*;as=Table;v=v1;g=meta.k8s.io",
        _PARTIAL_LIST,
    ):
        script.get(POD.item("a"), "", accept)
    for accept in (_PARTIAL, _PARTIAL.replace("v=v1", "v=v1beta1"), _PARTIAL_LIST.replace("v=v1", "v=v1beta1")):
        script.get(POD.path, "", accept)
    for query in ("includeObject=", "includeObject=none", "noHeaders=true", "includeObject=None&includeObject=Object"):
        script.get(POD.path, query, TABLE)
    script.get("/apis/policy/v1", "", _KUBECTL)
    script.get(POD.path, "limit=1&continue=x", TABLE)
    script.get(POD.path, "resourceVersion=x", TABLE)
