"""Scenarios about pods: binding, eviction, ephemeral containers, and updates of their specification. No I/O."""

from __future__ import annotations

import random
from typing import Any

from tests.differential.sequences.kinds import POD
from tests.differential.sequences.script import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, Script, Writer, ref, version

_ITEM = POD.item("a")


def binding(script: Script, random_: random.Random) -> None:
    """Bind a pod to a node, twice, and by invalid bindings."""
    made = script.post(POD.path, POD.object("a"))
    bodies: list[dict[str, Any]] = [
        {"target": {"kind": "Node", "name": "n1"}},
        {"target": {"kind": "Pod", "name": "n1"}},
        {"target": {"name": "n1"}},
        {"target": {}},
        {},
        {"metadata": {"name": "b"}, "target": {"kind": "Node", "name": "n1"}},
        {"metadata": {"name": "a", "uid": "x"}, "target": {"kind": "Node", "name": "n1"}},
        {"metadata": {"name": "a", "uid": ref(made, "metadata.uid")}, "target": {"kind": "Node", "name": "n2"}},
        {"metadata": {"annotations": {"x": "y"}, "labels": {"l": "m"}}, "target": {"kind": "Node", "name": "n3"}},
    ]
    head = {"apiVersion": "v1", "kind": "Binding"}
    random_.shuffle(bodies)
    script.post(f"{_ITEM}/binding", {**head, **bodies[0]}, "dryRun=All")
    for body in bodies[:5]:
        script.post(f"{_ITEM}/binding", {**head, **body})
    script.post("/api/v1/namespaces/<ns>/bindings", {**head, "metadata": {"name": "a"}, **bodies[5]})
    script.post(f"{POD.item('zzz')}/binding", {**head, "target": {"kind": "Node", "name": "n1"}})
    script.get(_ITEM)


def eviction(script: Script, random_: random.Random) -> None:
    """Evict pods that no budget protects."""
    script.post(POD.path, POD.object("a", finalizers=["example.com/a"]))
    head = {"apiVersion": "policy/v1", "kind": "Eviction"}
    bodies: list[dict[str, Any]] = [
        {"metadata": {"name": "a"}, "deleteOptions": {"dryRun": ["All"]}},
        {"metadata": {"name": "b"}},
        {"metadata": {"name": "a"}, "deleteOptions": {"preconditions": {"uid": "x"}}},
        {"metadata": {"name": "a"}, "deleteOptions": {"preconditions": {"resourceVersion": "1"}}},
        {"metadata": {"name": "a"}, "deleteOptions": {"gracePeriodSeconds": -1}},
        {},
        {"metadata": {"name": "a", "namespace": "other"}},
    ]
    for body in random_.sample(bodies, 4):
        script.post(f"{_ITEM}/eviction", {**head, **body}, random_.choice(("", "dryRun=All")))
    script.post(f"{_ITEM}/eviction", {**head, "metadata": {"name": "a"}})
    script.get(_ITEM)
    script.post(f"{POD.item('zzz')}/eviction", {**head, "metadata": {"name": "zzz"}})


def ephemeral_containers(script: Script, random_: random.Random) -> None:
    """Add ephemeral containers, change them and remove them."""
    path = f"{_ITEM}/ephemeralcontainers"
    script.post(POD.path, POD.object("a"))
    debug = {"name": "debug", "image": "busybox:1"}
    lists = [
        [debug],
        [{**debug, "image": "busybox:2"}],
        [debug, {"name": "more", "image": "busybox:1", "targetContainerName": "web"}],
        [{"name": "web", "image": "busybox:1"}],
        [{**debug, "ports": [{"containerPort": 80}]}],
        [{**debug, "name": "other", "targetContainerName": "zzz"}],
        [],
    ]
    for containers in random_.sample(lists, 5):
        media_type = random_.choice((MERGE_PATCH, STRATEGIC_PATCH))
        script.patch(path, {"spec": {"ephemeralContainers": containers}}, media_type)
    script.patch(path, {"metadata": {"labels": {"a": "b"}}, "spec": {"nodeName": "n"}}, MERGE_PATCH)
    script.get(path)
    script.patch(_ITEM, {"spec": {"ephemeralContainers": [debug]}})


def updates(script: Script, random_: random.Random) -> None:
    """Change what may change in a pod, and what may not."""
    script.post(POD.path, POD.object("a"))
    read = script.get(_ITEM)
    operations = [
        {"op": "replace", "path": "/spec/containers/0/image", "value": "nginx:2"},
        {"op": "replace", "path": "/spec/containers/0/image", "value": " "},
        {"op": "replace", "path": "/spec/containers/0/name", "value": "x"},
        {"op": "remove", "path": "/spec/containers/1"},
        {"op": "add", "path": "/spec/tolerations/-", "value": {"key": "b", "operator": "Exists"}},
        {"op": "remove", "path": "/spec/tolerations/0"},
        {"op": "add", "path": "/spec/activeDeadlineSeconds", "value": 100},
        {"op": "add", "path": "/spec/activeDeadlineSeconds", "value": 200},
        {"op": "remove", "path": "/spec/activeDeadlineSeconds"},
        {"op": "add", "path": "/spec/terminationGracePeriodSeconds", "value": 1},
        {"op": "add", "path": "/spec/nodeName", "value": "n"},
        {"op": "add", "path": "/spec/priority", "value": 7},
        {"op": "add", "path": "/metadata/labels", "value": {"a": "b"}},
        {"op": "add", "path": "/spec/schedulingGates", "value": [{"name": "example.com/g"}]},
        {"op": "add", "path": "/spec/containers/0/resources/limits", "value": {"cpu": "1"}},
    ]
    for operation in random_.sample(operations, 9):
        script.patch(_ITEM, [operation], JSON_PATCH)
    script.put(_ITEM, POD.object("a", resourceVersion=version(read)))
    script.get(_ITEM)


SEQUENCES: tuple[tuple[Writer, int], ...] = (
    (binding, 5),
    (eviction, 4),
    (ephemeral_containers, 5),
    (updates, 7),
)
