"""Scenarios about subresources: status, tokens, finalization, approval, and concurrent changes. No I/O."""

from __future__ import annotations

import random

from tests.differential.sequences.kinds import BUDGET, INGRESS, POD, QUOTA, SERVICE
from tests.differential.sequences.script import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, Script, Writer, ref, version

_ACCOUNTS = "/api/v1/namespaces/<ns>/serviceaccounts"
_NAMESPACES = "/api/v1/namespaces"
_TOKEN = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}


def status(script: Script, random_: random.Random) -> None:
    """Write the status of an object, and the object through its status."""
    kind = random_.choice((SERVICE, POD, BUDGET, QUOTA, INGRESS))
    item = kind.item("a")
    path = f"{item}/status"
    script.patch(path, {"status": kind.status[0]})
    made = script.post(kind.path, {**kind.object("a"), "status": kind.status[0]})
    for _ in range(8):
        chosen = random_.choice(kind.status)
        match random_.randrange(6):
            case 0:
                script.put(path, {**kind.object("a", labels={"x": "y"}), "status": chosen})
            case 1:
                read = script.get(item)
                metadata = {"resourceVersion": version(read), "finalizers": ["example.com/a"]}
                script.put(path, {**kind.object("a", **metadata), "status": chosen})
            case 2:
                script.patch(path, {"status": chosen, **random_.choice(kind.changes)}, MERGE_PATCH)
            case 3:
                script.patch(path, {"status": chosen}, STRATEGIC_PATCH, random_.choice(("", "dryRun=All")))
            case 4:
                script.patch(path, [{"op": "add", "path": "/status", "value": chosen}], JSON_PATCH)
            case _:
                script.put(item, {**kind.object("a", resourceVersion=version(made)), "status": chosen})
    script.patch(item, {"status": kind.status[0], "metadata": {"annotations": {"a": "b"}}})
    script.get(path)


def account_tokens(script: Script, random_: random.Random) -> None:
    """Request tokens of a service account, bound to objects or not, and review one."""
    script.post(_ACCOUNTS, {"metadata": {"name": "a"}, "secrets": [{"name": "s", "namespace": "x"}]})
    pod = POD.object("a")
    pod["spec"] = {**pod["spec"], "serviceAccountName": "a"}
    made = script.post(POD.path, pod)
    script.post(POD.path, POD.object("b"))
    path = f"{_ACCOUNTS}/a/token"
    specs = [
        {},
        {"expirationSeconds": 600},
        {"expirationSeconds": 599},
        {"expirationSeconds": 2**33},
        {"audiences": ["x"], "expirationSeconds": 3607},
        {"boundObjectRef": {}},
        {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "a"}},
        {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "a", "uid": ref(made, "metadata.uid")}},
        {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "a", "uid": "x"}},
        {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "b"}},
        {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "zzz"}},
        {"boundObjectRef": {"kind": "Secret", "apiVersion": "v1", "name": "zzz"}},
        {"boundObjectRef": {"kind": "Node", "apiVersion": "v1", "name": "zzz"}},
        {"boundObjectRef": {"kind": "ConfigMap", "apiVersion": "v1", "name": "zzz"}},
    ]
    for spec in random_.sample(specs, 8):
        script.post(path, {**_TOKEN, "spec": spec})
    metadata = random_.choice(({"name": "b"}, {"namespace": "other"}, {"labels": {"a": "b"}}, {"uid": "x"}))
    script.post(path, {**_TOKEN, "metadata": metadata, "spec": {}})
    script.post(path, {"kind": "Odd", "apiVersion": "v1"})
    script.post(f"{_ACCOUNTS}/zzz/token", {**_TOKEN, "spec": {}})
    script.send("GET", path)


def namespaces(script: Script, random_: random.Random) -> None:
    """Create, change and finalize a namespace."""
    name = "<ns>-b"
    item = f"{_NAMESPACES}/{name}"
    script.post(_NAMESPACES, {"metadata": {"name": name, "labels": {"a": "b"}}})
    changes = [
        {"metadata": {"labels": None}},
        {"metadata": {"labels": {"kubernetes.io/metadata.name": "x"}}},
        {"spec": {"finalizers": []}},
        {"spec": {"finalizers": ["kubernetes", "example.com/a"]}},
        {"status": {"phase": "Terminating"}},
        {"metadata": {"finalizers": ["example.com/a"]}},
    ]
    for change in random_.sample(changes, 4):
        script.patch(item, change)
    read = script.get(item)
    metadata = {"name": name, "resourceVersion": version(read)}
    spec = random_.choice(({"finalizers": ["kubernetes", "example.com/b"]}, {"finalizers": ["bad name"]}, {}))
    script.put(f"{item}/finalize", {"metadata": metadata, "spec": spec}, random_.choice(("", "dryRun=All")))
    script.put(f"{item}/finalize", {"metadata": {"name": "other"}, "spec": spec})
    script.patch(f"{item}/status", {"status": {"phase": random_.choice(("Active", "Odd", "Terminating"))}})
    script.get(item)
    script.get(f"{_NAMESPACES}?fieldSelector=status.phase%3DActive,metadata.name%3D{name}")
    script.delete(item, query="dryRun=All")
    script.delete(_NAMESPACES, query="labelSelector=a%3Db")


def protected_namespaces(script: Script, random_: random.Random) -> None:
    """Delete namespaces that every cluster keeps, and post into missing ones."""
    for name in random_.sample(("default", "kube-system", "kube-public"), 2):
        script.delete(f"{_NAMESPACES}/{name}")
    script.post("/api/v1/namespaces/missing/configmaps", {"metadata": {"name": "a"}})
    script.put("/api/v1/namespaces/missing/configmaps/a", {"metadata": {"name": "a"}})
    script.delete("/api/v1/namespaces/missing/configmaps/a")
    script.delete("/api/v1/namespaces/missing/configmaps")


SEQUENCES: tuple[tuple[Writer, int], ...] = (
    (status, 14),
    (account_tokens, 5),
    (namespaces, 5),
    (protected_namespaces, 1),
)
