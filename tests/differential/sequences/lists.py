"""Scenarios about lists: selectors, pages, resource versions, and deletion of collections. No I/O."""

from __future__ import annotations

import random

from tests.differential.sequences.kinds import KINDS, NAMESPACED, POD
from tests.differential.sequences.script import Kind, Script, Writer, ref, version

_LABELS = (
    "app=web",
    "app==web",
    "app!=web",
    "app",
    "!app",
    "app in (web,db)",
    "app notin (web)",
    "n>1",
    "n<2",
    "n>x",
    "app in ()",
    "app=",
    "app=web,n=1",
    "-a=b",
    "a/b/c=d",
    "app=-",
    "app in (web",
    "=x",
    ",",
    "",
    "app in (web, db),tier",
    "app = web",
    "app=web=x",
    "app notin (web,db),n",
)
_FIELDS = ("metadata.name=b", "metadata.name=b,metadata.name=c", "status.x=1", "=", "metadata.name", "a=b,c", "")


def _create(script: Script, kind: Kind, count: int, random_: random.Random) -> list[int]:
    made = []
    for number in range(count):
        labels = {"scenario": "<ns>", "n": str(number)}
        if random_.random() < 0.7:
            labels["app"] = random_.choice(("web", "db"))
        made.append(script.post(kind.path, kind.object("abcdefgh"[number], labels=labels)))
    return made


def _quoted(text: str) -> str:
    for character, escaped in (("%", "%25"), (" ", "%20"), ("=", "%3D"), (",", "%2C"), ("&", "%26"), ("+", "%2B")):
        text = text.replace(character, escaped)
    return text.replace("<", "%3C").replace("%3Cns>", "<ns>").replace(">", "%3E").replace("<ns%3E", "<ns>")


def selected_by_labels(script: Script, random_: random.Random) -> None:
    """List objects by label selectors, valid or not."""
    kind = random_.choice(NAMESPACED)
    _create(script, kind, 4, random_)
    for selector in random_.sample(_LABELS, 10):
        script.get(kind.path, f"labelSelector={_quoted(selector)}")


def selected_by_fields(script: Script, random_: random.Random) -> None:
    """List objects by field selectors, valid for the kind or not."""
    kind = random_.choice(KINDS)
    _create(script, kind, 3, random_)
    scope = "" if kind.namespaced else "&labelSelector=scenario%3D<ns>"
    chosen = random_.sample((*kind.fields, *_FIELDS), min(9, len(kind.fields) + len(_FIELDS)))
    for selector in chosen:
        script.get(kind.path, f"fieldSelector={_quoted(selector)}{scope}")


def fields_of_pods(script: Script, random_: random.Random) -> None:
    """List pods of different nodes and states by their fields."""
    for number, node in enumerate(("n1", "n2", "")):
        obj = POD.object("abc"[number])
        if node:
            obj["spec"] = {**obj["spec"], "nodeName": node}
        script.post(POD.path, obj)
    script.patch(f"{POD.item('a')}/status", {"status": {"phase": "Running", "podIP": "10.0.0.1"}})
    for selector in random_.sample(POD.fields, 6):
        script.get(POD.path, f"fieldSelector={_quoted(selector)}")
    script.get(POD.path, "fieldSelector=spec.nodeName%3Dn1")
    script.get(POD.path, "fieldSelector=status.phase%3DRunning%2Cspec.nodeName%21%3Dn2")


def pages(script: Script, random_: random.Random) -> None:
    """List objects page by page, while the collection changes."""
    kind = random_.choice([kind for kind in NAMESPACED if kind.plural not in ("configmaps", "endpoints")])
    count = random_.randint(4, 7)
    _create(script, kind, count, random_)
    limit = random_.randint(1, 3)
    selector = random_.choice(("", "&labelSelector=app", "&fieldSelector=metadata.name%21%3Db"))
    page = script.get(kind.path, f"limit={limit}{selector}")
    script.delete(kind.item("b"), query="gracePeriodSeconds=0")
    script.post(kind.path, kind.object("z"))
    for _ in range(4):
        page = script.get(kind.path, f"limit={limit}{selector}&continue={ref(page, 'metadata.continue')}")
    script.get(kind.path, f"limit={limit}&continue=invalid")
    script.get(kind.path, f"limit={random_.choice(('-1', 'x', '0', '1000'))}")
    script.get(kind.path, f"limit=2&continue={ref(count, 'metadata.continue')}&resourceVersion=5")
    script.get(kind.path, f"limit=2&continue={ref(count, 'metadata.continue')}&resourceVersionMatch=Exact")


def resource_versions(script: Script, random_: random.Random) -> None:
    """List and read with resource versions and their matches."""
    kind = random_.choice(NAMESPACED)
    made = _create(script, kind, 3, random_)
    listed = script.get(kind.path, "labelSelector=scenario")
    versions = ("", "0", "x", "-1", "1.5", version(made[0]), version(made[2]), version(listed))
    matches = ("", "NotOlderThan", "Exact", "Odd")
    for _ in range(9):
        query = f"labelSelector=scenario&resourceVersion={random_.choice(versions)}"
        if match := random_.choice(matches):
            query += f"&resourceVersionMatch={match}"
        if random_.random() < 0.3:
            query += "&limit=2"
        script.get(kind.path, query)
    for chosen in random_.sample(versions, 4):
        script.get(kind.item("a"), f"resourceVersion={chosen}")
    script.get(kind.path, f"resourceVersionMatch={random_.choice(matches[1:])}")


def version_of_the_future(script: Script, random_: random.Random) -> None:
    """Read with a resource version that the server does not have yet."""
    kind = random_.choice(NAMESPACED)
    made = script.post(kind.path, kind.object("a"))
    future = ref(made, "metadata.resourceVersion", 1_000_000)
    script.get(kind.item("a"), f"resourceVersion={future}")
    script.get(kind.path, f"resourceVersion={future}&resourceVersionMatch=Exact")
    script.get(kind.path, f"resourceVersion={future}&resourceVersionMatch=NotOlderThan")


def deleted_collection(script: Script, random_: random.Random) -> None:
    """Delete the objects that selectors choose."""
    kind = random_.choice(KINDS)
    _create(script, kind, 5, random_)
    scope = "labelSelector=scenario%3D<ns>"
    script.delete(kind.path, query=f"{scope},app%3Dweb&dryRun=All")
    script.get(kind.path, scope)
    script.delete(kind.path, query=f"{scope},app%3Dweb")
    script.get(kind.path, scope)
    script.delete(kind.path, query=f"{scope}&fieldSelector=metadata.name%3D{kind.name('a')}")
    script.delete(kind.path, query=f"{scope}&fieldSelector=x%3Dy")
    script.delete(kind.path, query="labelSelector=%21%21")
    script.delete(kind.path, {"propagationPolicy": "Odd"}, scope)
    script.delete(kind.path, {"gracePeriodSeconds": 0}, f"{scope}&limit=1")
    script.get(kind.path, scope)
    script.delete(kind.path, query=scope)
    script.get(kind.path, scope)


def collection_with_finalizers(script: Script, random_: random.Random) -> None:
    """Delete a collection in which some objects have finalizers."""
    kind = random_.choice(NAMESPACED)
    for name in "abc":
        extra = {"finalizers": ["example.com/hold"]} if name != "b" else {}
        script.post(kind.path, kind.object(name, **extra))
    script.delete(kind.path, query="labelSelector=%21scenario&gracePeriodSeconds=0")
    script.get(kind.path)
    script.get(kind.item("a"))
    script.delete(kind.path, query=random_.choice(("dryRun=All", "propagationPolicy=Foreground", "dryRun=Odd")))
    script.patch(kind.item("a"), {"metadata": {"finalizers": None}})
    script.get(kind.path)


SEQUENCES: tuple[tuple[Writer, int], ...] = (
    (selected_by_labels, 8),
    (selected_by_fields, 16),
    (fields_of_pods, 3),
    (pages, 8),
    (resource_versions, 10),
    (version_of_the_future, 1),
    (deleted_collection, 10),
    (collection_with_finalizers, 6),
)
