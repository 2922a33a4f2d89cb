"""Scenarios about the life of an object: creation, reading, updates with and without a resource version. No I/O."""

from __future__ import annotations

import random

from tests.differential.sequences.kinds import CONFIG_MAP, KINDS, POD
from tests.differential.sequences.script import JSON_PATCH, STRATEGIC_PATCH, Kind, Script, Writer, ref, version

_MANAGERS = ("", "fieldManager=one", "fieldManager=two")


def created_and_updated(script: Script, random_: random.Random) -> None:
    """Create an object, write it several times, with the current and an outdated version."""
    kind = random_.choice(KINDS)
    item, query = kind.item("a"), random_.choice(_MANAGERS)
    script.get(item)
    if random_.random() < 0.4:
        script.post(kind.path, kind.object("a"), "dryRun=All")
    first = script.post(kind.path, kind.object("a", labels={"app": "web"}), query)
    script.post(kind.path, kind.object("a"))
    script.get(item)
    for _ in range(random_.randint(3, 6)):
        _write(script, random_, kind, first)
    script.get(item)
    script.delete(item)
    script.get(item)
    script.delete(item)


def _write(script: Script, random_: random.Random, kind: Kind, first: int) -> None:
    """Add a step that updates or patches the object *a*, which step *first* created."""
    item, change = kind.item("a"), random_.choice(kind.changes)
    query = random_.choice((*_MANAGERS, "dryRun=All"))
    match random_.randrange(7):
        case 0:
            script.put(item, kind.object("a", labels={"n": str(random_.randrange(3))}), query)
        case 1:
            script.put(item, {**kind.object("a", resourceVersion=version(first)), **change}, query)
        case 2:
            read = script.get(item)
            script.put(item, {**kind.object("a", resourceVersion=version(read)), **change}, query)
        case 3:
            script.patch(item, {**change, "metadata": {"resourceVersion": version(first)}}, query=query)
        case 4:
            script.patch(item, change, STRATEGIC_PATCH, query)
        case 5:
            script.patch(item, change, query=query)
            script.patch(item, change, query=query)
        case _:
            uid = random_.choice((ref(first, "metadata.uid"), "11111111-2222-3333-4444-555555555555"))
            script.put(item, kind.object("a", uid=uid), query)


def updated_before_it_exists(script: Script, random_: random.Random) -> None:
    """Update and patch a missing object; some kinds create it."""
    kind = random_.choice(KINDS)
    item = kind.item("a")
    extra = random_.choice(({}, {"resourceVersion": "1"}, {"resourceVersion": "x"}, {"uid": "u"}, {"uid": ""}))
    script.patch(item, {"metadata": {"labels": {"a": "b"}}})
    script.patch(item, [{"op": "add", "path": "/metadata/labels", "value": {}}], JSON_PATCH)
    script.put(item, kind.object("a", **extra), random_.choice(("", "dryRun=All", "fieldManager=one")))
    script.get(item)
    script.put(item, kind.object("a", generateName="a-"))
    script.get(item)


def created_with_a_generated_name(script: Script, random_: random.Random) -> None:
    """Create objects whose names the server generates."""
    kind = random_.choice(KINDS)
    for prefix in random_.sample(("a-", "a", "a.", "A-", "-", "a" * 70, "a/b", "..", ""), 5):
        obj = kind.object("a", generateName=prefix)
        if prefix and not kind.namespaced:
            obj["metadata"]["generateName"] = f"<ns>-{prefix}"
        del obj["metadata"]["name"]
        script.post(kind.path, obj, random_.choice(("", "", "dryRun=All")))
    script.post(kind.path, kind.object("a", generateName="b-"))


def created_with_metadata_of_the_server(script: Script, random_: random.Random) -> None:
    """Create and update objects with fields that only the server sets, and with wrong names and namespaces."""
    kind = random_.choice(KINDS)
    item = kind.item("a")
    extras: list[dict[str, object]] = [
        {"uid": "u", "creationTimestamp": "2024-01-02T03:04:05Z", "generation": 7, "selfLink": "/x"},
        {"deletionTimestamp": "2024-01-02T03:04:05Z", "deletionGracePeriodSeconds": 5},
        {"resourceVersion": "5"},
        {"namespace": "other"},
        {"managedFields": [{"manager": "x", "operation": "Apply", "apiVersion": kind.api_version}]},
        {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "1"}] * 2},
        {"finalizers": ["example.com/a", "example.com/a"]},
        {"annotations": {"a": "b"}, "labels": {"a": "-"}},
    ]
    random_.shuffle(extras)
    for extra in extras[:3]:
        script.post(kind.path, kind.object("a", **extra))
    script.post(kind.path, kind.object("a"))
    for extra in extras[3:7]:
        script.put(item, kind.object("a", **extra))
    script.put(item, kind.object("b"))
    obj = kind.object("a")
    del obj["metadata"]["name"]
    script.put(item, obj)
    script.get(item)


def replaced_after_deletion(script: Script, random_: random.Random) -> None:
    """Delete an object and create another one of the same name; versions and UIDs of the first are outdated."""
    kind = random_.choice(KINDS)
    item = kind.item("a")
    first = script.post(kind.path, kind.object("a"))
    script.delete(item, query=random_.choice(("", "gracePeriodSeconds=0")))
    second = script.post(kind.path, kind.object("a"))
    for made in (first, second):
        script.put(item, kind.object("a", resourceVersion=version(made), uid=ref(made, "metadata.uid")))
        script.patch(item, {"metadata": {"uid": ref(made, "metadata.uid"), "labels": {"n": str(made)}}})
        script.delete(item, {"preconditions": {"uid": ref(made, "metadata.uid")}})


def immutable_config_map(script: Script, random_: random.Random) -> None:
    """Make a config map immutable and try to change it."""
    item = CONFIG_MAP.item("a")
    script.post(CONFIG_MAP.path, CONFIG_MAP.object("a"))
    script.patch(item, {"immutable": True})
    for change in random_.sample(CONFIG_MAP.changes, 3):
        script.patch(item, change)
    script.patch(item, {"metadata": {"labels": {"a": "b"}}})
    script.patch(item, {"immutable": None})
    script.delete(item)


def no_op_writes(script: Script, random_: random.Random) -> None:
    """Write what is stored already: the resource version stays."""
    kind = random_.choice([kind for kind in KINDS if kind is not POD])
    item = kind.item("a")
    script.post(kind.path, kind.object("a"), "fieldManager=one")
    script.patch(item, {}, query=random_.choice(_MANAGERS))
    script.patch(item, [], JSON_PATCH)
    script.patch(item, {"metadata": {"labels": {}}}, STRATEGIC_PATCH)
    script.put(item, kind.object("a"), "fieldManager=one")
    script.put(item, kind.object("a"), "fieldManager=two")
    script.patch(item, {"metadata": {"annotations": {"x": "y"}}}, query="fieldManager=two")
    script.patch(item, {"metadata": {"annotations": {"x": "y"}}}, query="fieldManager=three")
    script.patch(item, {"metadata": {"annotations": None}}, query="fieldManager=three")


SEQUENCES: tuple[tuple[Writer, int], ...] = (
    (created_and_updated, 20),
    (updated_before_it_exists, 10),
    (created_with_a_generated_name, 8),
    (created_with_metadata_of_the_server, 12),
    (replaced_after_deletion, 8),
    (immutable_config_map, 2),
    (no_op_writes, 10),
)
