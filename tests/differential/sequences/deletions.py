"""Scenarios about deletions: options, preconditions, propagation, and the life cycle of finalizers. No I/O."""

from __future__ import annotations

import random
from typing import Any

from tests.differential.sequences.kinds import KINDS, POD
from tests.differential.sequences.script import JSON_PATCH, Script, Writer, ref, version

_UID = "11111111-2222-3333-4444-555555555555"
_OPTIONS: tuple[dict[str, Any], ...] = (
    {"dryRun": ["All"]},
    {"dryRun": ["Odd"]},
    {"dryRun": "All"},
    {"gracePeriodSeconds": -1},
    {"gracePeriodSeconds": 5},
    {"gracePeriodSeconds": "5"},
    {"orphanDependents": True},
    {"orphanDependents": True, "propagationPolicy": "Orphan"},
    {"propagationPolicy": "Odd"},
    {"propagationPolicy": "Background", "dryRun": ["All"]},
    {"propagationPolicy": "Foreground", "dryRun": ["All"]},
    {"propagationPolicy": "Orphan", "dryRun": ["All"]},
    {"preconditions": {"uid": _UID}},
    {"preconditions": {"resourceVersion": "1"}},
    {"preconditions": {}, "dryRun": ["All"]},
    {"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"]},
    {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", "dryRun": ["All"]},
    {"kind": "Odd", "apiVersion": "v1"},
    {"unknown": 1, "dryRun": ["All"]},
)
_QUERIES = (
    "dryRun=All",
    "dryRun=Odd",
    "gracePeriodSeconds=x",
    "gracePeriodSeconds=-5&dryRun=All",
    "propagationPolicy=Odd",
    "propagationPolicy=Foreground&dryRun=All",
    "orphanDependents=true&dryRun=All",
    "orphanDependents=x",
    "propagationPolicy=Orphan&orphanDependents=false",
)


def options(script: Script, random_: random.Random) -> None:
    """Delete with options in the body and in the query, most of which do not delete the object."""
    kind = random_.choice(KINDS)
    item = kind.item("a")
    made = script.post(kind.path, kind.object("a"))
    for body in random_.sample(_OPTIONS, 6):
        script.delete(item, body)
    for query in random_.sample(_QUERIES, 4):
        script.delete(item, query=query)
    script.delete(item, "not json")
    script.delete(item, {"preconditions": {"uid": ref(made, "metadata.uid"), "resourceVersion": "1"}})
    preconditions = {"uid": ref(made, "metadata.uid"), "resourceVersion": version(made)}
    script.delete(item, {"preconditions": preconditions}, random_.choice(("", "gracePeriodSeconds=0")))
    script.get(item)
    script.delete(item, {"preconditions": preconditions})


def finalizers(script: Script, random_: random.Random) -> None:
    """Delete an object with finalizers, then write it until it has none."""
    kind = random_.choice(KINDS)
    item = kind.item("a")
    script.post(kind.path, kind.object("a", finalizers=["example.com/one", "example.com/two"]))
    script.delete(item, query=random_.choice(("", "gracePeriodSeconds=0", "gracePeriodSeconds=7", "dryRun=All")))
    script.delete(item, {"gracePeriodSeconds": random_.choice((0, 3))})
    script.get(item)
    script.post(kind.path, kind.object("a"))
    script.patch(item, {"metadata": {"finalizers": ["example.com/one", "example.com/two", "example.com/three"]}})
    script.patch(item, {"metadata": {"labels": {"a": "b"}}})
    script.patch(item, random_.choice(kind.changes))
    script.put(item, kind.object("a", finalizers=["example.com/two"]))
    script.patch(item, {"metadata": {"deletionTimestamp": None}})
    script.patch(item, {"metadata": {"finalizers": ["example.com/two"]}})
    script.patch(item, [{"op": "remove", "path": "/metadata/finalizers/0"}], JSON_PATCH, "dryRun=All")
    script.patch(item, [{"op": "remove", "path": "/metadata/finalizers/0"}], JSON_PATCH)
    script.get(item)
    script.post(kind.path, kind.object("a"))


def propagation(script: Script, random_: random.Random) -> None:
    """Delete in the foreground or orphaning: the object waits for a garbage collector."""
    kind = random_.choice([kind for kind in KINDS if kind.plural != "events"])
    item, policy = kind.item("a"), random_.choice(("Foreground", "Orphan", "Background"))
    own = random_.choice(([], ["example.com/one"], ["foregroundDeletion"], ["orphan"]))
    script.post(kind.path, kind.object("a", finalizers=own))
    body = {"propagationPolicy": policy}
    script.delete(item, body if random_.random() < 0.5 else None, f"propagationPolicy={policy}&gracePeriodSeconds=0")
    script.get(item)
    other = random_.choice(("Foreground", "Orphan", "Background"))
    script.delete(item, {"propagationPolicy": other})
    script.get(item)
    script.delete(item, {"orphanDependents": random_.random() < 0.5})
    script.patch(item, {"metadata": {"finalizers": None}})
    script.get(item)


def graceful_pod(script: Script, random_: random.Random) -> None:
    """Delete a pod of a node with changing grace periods."""
    item = POD.item("a")
    obj = POD.object("a", **random_.choice(({}, {"finalizers": ["example.com/one"]})))
    obj["spec"] = {**obj["spec"], "nodeName": "n1", **random_.choice(({}, {"terminationGracePeriodSeconds": 9}))}
    script.post(POD.path, obj)
    script.delete(item, query="dryRun=All")
    script.get(item)
    periods = random_.sample((60, 30, 10, 9, 1, 0, -1), 4)
    for period in periods:
        script.delete(item, {"gracePeriodSeconds": period})
        script.get(item)
    script.delete(item)
    script.patch(item, {"spec": {"terminationGracePeriodSeconds": 1}})
    script.patch(item, {"metadata": {"finalizers": None}})
    script.delete(item, query="gracePeriodSeconds=0")
    script.get(item)


SEQUENCES: tuple[tuple[Writer, int], ...] = (
    (options, 18),
    (finalizers, 14),
    (propagation, 10),
    (graceful_pod, 8),
)
