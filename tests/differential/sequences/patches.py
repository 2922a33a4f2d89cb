"""Scenarios about patches: lists with keys, directives, JSON patch operations, bodies that are no patches. No I/O."""

from __future__ import annotations

import random
from typing import Any

from tests.differential.edits import Json
from tests.differential.sequences.kinds import CONFIG_MAP, KINDS, POD, SERVICE
from tests.differential.sequences.script import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, Script, Writer

_POD_PATCHES: tuple[Json, ...] = (
    {"spec": {"containers": [{"name": "web", "image": "nginx:2"}]}},
    {"spec": {"containers": [{"name": "new", "image": "nginx:2"}]}},
    {"spec": {"containers": [{"name": "web", "$patch": "delete"}]}},
    {"spec": {"containers": [{"$patch": "replace"}, {"name": "web", "image": "nginx:3"}]}},
    {"spec": {"containers": [{"image": "nginx:2"}]}},
    {"spec": {"containers": [{"name": "web", "env": [{"name": "C", "value": "3"}]}]}},
    {"spec": {"containers": [{"name": "web", "env": [{"name": "A", "$patch": "delete"}]}]}},
    {"spec": {"$setElementOrder/containers": [{"name": "side"}, {"name": "web"}]}},
    {"spec": {"$setElementOrder/containers": [{"name": "web"}], "containers": [{"name": "side", "image": "x"}]}},
    {"spec": {"tolerations": [{"key": "b", "operator": "Exists"}]}},
    {"spec": {"tolerations": [{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Exists"}]}},
    {"spec": {"activeDeadlineSeconds": 10}},
    {"spec": {"activeDeadlineSeconds": "10"}},
    {"spec": None},
    {"metadata": {"labels": {"$patch": "replace", "x": "y"}}},
    {"metadata": {"labels": {"$patch": "delete"}}},
    {"metadata": {"labels": {"$patch": "odd"}}},
    {"metadata": {"labels": {"$retainKeys": ["app"]}}},
    {"metadata": {"$retainKeys": ["name", "labels"], "labels": {"z": "1"}}},
    {"metadata": {"finalizers": ["example.com/a"]}},
    {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a"]}},
    {"metadata": {"$setElementOrder/finalizers": ["example.com/b", "example.com/a"], "finalizers": ["example.com/b"]}},
    {"metadata": {"finalizers": ["example.com/a", "example.com/a"]}},
    {"metadata": {"name": "other"}},
    {"kind": "Odd"},
    {"apiVersion": "v2"},
    {"unknown": {"a": 1}},
    {"$patch": "replace", "metadata": {"name": "a"}},
    {},
)
_SERVICE_PATCHES: tuple[Json, ...] = (
    {"spec": {"ports": [{"port": 80, "targetPort": 8080}]}},
    {"spec": {"ports": [{"port": 81, "name": "x"}]}},
    {"spec": {"ports": [{"port": 80, "$patch": "delete"}]}},
    {"spec": {"ports": [{"$patch": "delete", "port": 99}]}},
    {"spec": {"$setElementOrder/ports": [{"port": 53}, {"port": 80}]}},
    {"spec": {"ports": [{"port": 53, "protocol": "UDP", "name": "dns-udp"}]}},
    {"spec": {"ports": []}},
    {"spec": {"ports": None}},
    {"spec": {"selector": {"$patch": "replace", "x": "y"}}},
    {"spec": {"selector": {"app": None}}},
    {"spec": {"selector": None}},
    {"spec": {"clusterIP": "10.96.0.9"}},
    {"spec": {"clusterIP": ""}},
    {"spec": {"type": "ExternalName", "externalName": "example.com"}},
)
_OPERATIONS: tuple[Json, ...] = (
    {"op": "test", "path": "/data/a", "value": "1"},
    {"op": "test", "path": "/data/a", "value": "9"},
    {"op": "test", "path": "/data/zzz", "value": None},
    {"op": "test", "path": "/data/zzz"},
    {"op": "add", "path": "/data/c", "value": "3"},
    {"op": "add", "path": "/data/c", "value": 3},
    {"op": "add", "path": "/missing/c", "value": "3"},
    {"op": "add", "path": "/data", "value": {"only": "1"}},
    {"op": "add", "path": "/metadata/finalizers", "value": ["example.com/a"]},
    {"op": "add", "path": "/metadata/finalizers/-", "value": "example.com/b"},
    {"op": "add", "path": "/metadata/finalizers/7", "value": "example.com/b"},
    {"op": "remove", "path": "/metadata/finalizers"},
    {"op": "remove", "path": "/metadata/finalizers/-1"},
    {"op": "remove", "path": "/data/zzz"},
    {"op": "remove", "path": "/data/a"},
    {"op": "replace", "path": "/data/b", "value": "5"},
    {"op": "replace", "path": "/data/zzz", "value": "5"},
    {"op": "move", "from": "/data/a", "path": "/data/moved"},
    {"op": "move", "from": "/data/zzz", "path": "/data/moved"},
    {"op": "copy", "from": "/data/b", "path": "/data/copied"},
    {"op": "copy", "from": "/data/zzz", "path": "/data/copied"},
    {"op": "odd", "path": "/data/a"},
    {"op": "add", "value": "1"},
    {"path": "/data/a", "value": "1"},
    {"op": "add", "path": "data/a", "value": "1"},
    {"op": "add", "path": "", "value": {}},
    {"op": "add", "path": "/metadata/labels/a~1b", "value": "x"},
    {"op": "add", "path": "/metadata/labels", "value": {"a/b": "x"}},
    {"op": "replace", "path": "/kind", "value": "Secret"},
    {"op": "replace", "path": "/metadata/name", "value": "b"},
    {"op": "replace", "path": "/metadata/resourceVersion", "value": "1"},
    {"op": "remove", "path": "/metadata/resourceVersion"},
    {"op": "add", "path": "/data/x", "value": "1", "unknown": 1},
)
_BODIES: tuple[tuple[Json, str], ...] = (
    ([], MERGE_PATCH),
    ("text", MERGE_PATCH),
    ("null", MERGE_PATCH),
    ('{"a":', MERGE_PATCH),
    ("", MERGE_PATCH),
    ({}, JSON_PATCH),
    ([1], JSON_PATCH),
    ("null", JSON_PATCH),
    ("", JSON_PATCH),
    ([], STRATEGIC_PATCH),
    ("null", STRATEGIC_PATCH),
    ('"x"', STRATEGIC_PATCH),
    ({}, "application/json"),
    ({}, "text/plain"),
    ({}, ""),
    ({"metadata": None}, MERGE_PATCH),
    ({"metadata": []}, MERGE_PATCH),
    ({"metadata": "x"}, STRATEGIC_PATCH),
    ({"data": {"a": None, "b": {"c": 1}}}, MERGE_PATCH),
    ({"data": [{"a": None}]}, MERGE_PATCH),
)


def of_pods(script: Script, random_: random.Random) -> None:
    """Patch a pod strategically."""
    script.post(POD.path, POD.object("a", labels={"app": "web"}))
    for patch in random_.sample(_POD_PATCHES, 11):
        query = random_.choice(("", "", "dryRun=All", "fieldValidation=Strict"))
        script.patch(POD.item("a"), patch, STRATEGIC_PATCH, query)
    script.get(POD.item("a"))


def of_services(script: Script, random_: random.Random) -> None:
    """Patch a service strategically."""
    script.post(SERVICE.path, SERVICE.object("a"))
    for patch in random_.sample(_SERVICE_PATCHES, 9):
        script.patch(SERVICE.item("a"), patch, random_.choice((STRATEGIC_PATCH, STRATEGIC_PATCH, MERGE_PATCH)))
    script.get(SERVICE.item("a"))


def by_operations(script: Script, random_: random.Random) -> None:
    """Patch a config map by JSON patch operations, some of which fail."""
    script.post(CONFIG_MAP.path, CONFIG_MAP.object("a"))
    for _ in range(12):
        operations: list[Any] = random_.sample(_OPERATIONS, random_.choice((1, 1, 1, 2, 3)))
        query = random_.choice(("", "", "fieldValidation=Strict", "fieldValidation=Ignore"))
        script.patch(CONFIG_MAP.item("a"), operations, JSON_PATCH, query)
    script.get(CONFIG_MAP.item("a"))


def unusual_bodies(script: Script, random_: random.Random) -> None:
    """Send bodies that are no patches, or change the type of a field."""
    kind = random_.choice((CONFIG_MAP, CONFIG_MAP, *KINDS))
    script.post(kind.path, kind.object("a"))
    for body, media_type in random_.sample(_BODIES, 10):
        script.patch(kind.item("a"), body, media_type)
    script.patch(kind.item("zzz"), {}, random_.choice((MERGE_PATCH, STRATEGIC_PATCH)))
    script.get(kind.item("a"))


SEQUENCES: tuple[tuple[Writer, int], ...] = (
    (of_pods, 12),
    (of_services, 8),
    (by_operations, 12),
    (unusual_bodies, 8),
)
