"""Generated cases: one or two values of a base object changed, from a seed. No I/O.

Every field of the schema is visited: those that the base has, and those that it lacks. Each gets values that are valid,
at a boundary, invalid, zero, null, of another type, and none at all.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator, Sequence

from tests.differential.cases import Case
from tests.differential.catalog import Resource
from tests.differential.edits import Edit, Json, join, put, split
from tests.differential.schema import Shape

_LONG = {63: "a" * 63, 64: "a" * 64, 253: ".".join(["a" * 63] * 3 + ["a" * 61]), 254: "a" * 254}
_STRINGS = (
    "",
    "abc",
    "ABC",
    "a.b",
    "a_b",
    "a b",
    " abc",
    "-a",
    "a-",
    "a/b",
    "a//b",
    "/abs/path",
    "../up",
    "a/../b",
    "..",
    ".",
    "80",
    "0",
    "-1",
    "http",
    "10.0.0.1",
    "127.0.0.1",
    "0.0.0.0",
    "169.254.1.1",
    "224.0.0.1",
    "300.0.0.1",
    "010.0.0.1",
    "::1",
    "fd00::5",
    "10.0.0.0/8",
    "10.0.0.1/8",
    "example.com/name",
    "Example.com/name",
    "example.com/",
    "kubernetes.io/name",
    "example.com:443",
    "https://example.com",
    "metadata.name",
    "metadata.labels['app']",
    "status.podIP",
    "limits.cpu",
    "é",
    "a\nb",
    "*",
    "*.example.com",
    "a=b",
    "$(VAR)",
    "Always",
    "None",
    "true",
    *_LONG.values(),
)
_INTEGERS = (0, 1, -1, 2, 3, 30, 79, 100, 101, 255, 511, 512, 1000, 30001, 65535, 65536, 2**31 - 1, 2**31, -(2**31))
_QUANTITIES = (
    "0",
    "1",
    "-1",
    "100m",
    "1.5",
    "1Gi",
    "1Mi",
    "3",
    "1e3",
    "1.0005",
    "0.1",
    "128M ",
    "",
    "abc",
    "1GiB",
    5,
    1.5,
)
_TIMES = ("2024-01-02T03:04:05Z", "2024-01-02T03:04:05.123456Z", "0001-01-01T00:00:00Z", "2024-01-02", "", "soon")
_KEYS = ("a", "example.com/a", "Bad Key", "-a", "a/b/c", "", "kubernetes.io/x", "a" * 64)
_NAMES: dict[str, tuple[Json, ...]] = {
    "accessModes": (
        ["ReadWriteOnce"],
        ["ReadWriteOncePod", "ReadOnlyMany"],
        ["Bad"],
        ["ReadWriteOnce", "ReadWriteOnce"],
    ),
    "appProtocol": ("https", "kubernetes.io/h2c", "example.com/x"),
    "caBundle": ("QUJD", "QU\nJD", "QUJD=", "!"),
    "effect": ("NoSchedule", "NoExecute", "PreferNoSchedule", "Never"),
    "hostPort": (5353, 80, 0, 70000),
    "image": ("nginx", "nginx:1", "nginx:latest", " nginx", "nginx@sha256:" + "a" * 64, "reg:5000/nginx"),
    "ip": ("10.0.0.7", "fd00::7"),
    "operator": ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Equal"),
    "port": (80, "http", "80", 70000, "a" * 16, "bad_port"),
    "targetPort": (0, 80, "http", "80", "", "Bad", 65536, "a" * 16, "1"),
    "protocol": ("TCP", "UDP", "SCTP", "tcp", "HTTP"),
    "defaultMode": (0, 0o777, 0o1000, -1),
    "mode": (0, 0o777, 0o1000, -1),
    "resource": ("limits.cpu", "requests.memory", "limits.hugepages-2Mi", "cpu", "requests.example.com/gpu"),
    "divisor": ("0", "1", "1m", "1Mi", "1Ki", "2"),
    "fieldPath": (
        "metadata.uid",
        "spec.nodeName",
        "status.hostIPs",
        "metadata.annotations['A B']",
        "metadata.labels",
        "x",
    ),
    "type": (
        "ClusterIP",
        "NodePort",
        "LoadBalancer",
        "ExternalName",
        "Opaque",
        "Directory",
        "RuntimeDefault",
        "Localhost",
    ),
    "clusterIP": ("None", "10.96.0.20", "10.0.0.1", "fd00::1", "x"),
}

_EPHEMERAL = "ephemeralcontainers"
_DEBUGGER: Json = {
    "name": "debug",
    "image": "busybox",
    "command": ["sh"],
    "targetContainerName": "web",
    "env": [{"name": "A", "value": "b"}],
    "securityContext": {"runAsUser": 1000},
    "stdin": True,
    "tty": True,
}


def generate(resource: Resource, stored: list[Json], shape: Shape, count: int, seed: int) -> list[Case]:
    """Return *count* different cases of *resource*, or all that there are, the same for the same *seed*.

    :param stored: the base objects as the server stores them; updates and patches start from these.
    """
    random_ = random.Random(f"{resource.name}:{seed}")
    singles = [list(_edits(base, shape, random_)) for base in resource.bases]
    cases: dict[str, Case] = {}
    creations = [Case("create", number, edit) for number, edits in enumerate(singles) for edit in edits]
    random_.shuffle(creations)
    if not resource.stored:
        return creations[:count]
    shares = [("create", 0.55), ("pairs", 0.1), ("update", 0.17), ("patch", 0.12)]
    if resource.has_status:
        shares.append(("status", 0.06))
    changes = [list(_edits(obj, shape, random_)) for obj in stored]
    debugging = []
    if resource.plural == "pods":
        shares.append((_EPHEMERAL, 0.03))
        debugging = [list(_ephemeral_edits(shape, random_)) for _ in stored]
    for kind, share in shares:
        edits = singles if kind == "pairs" else debugging if kind == _EPHEMERAL else changes
        target = round(count * share) + len(cases)
        for case in _cases(kind, resource.bases if kind == "pairs" else stored, shape, edits, creations, random_):
            if len(cases) >= target:
                break
            cases.setdefault(repr(case), case)
    return list(cases.values())


def _cases(
    kind: str,
    bases: Sequence[Json],
    shape: Shape,
    singles: list[list[Edit]],
    creations: list[Case],
    random_: random.Random,
) -> Iterator[Case]:
    if kind == "create":
        yield from creations
        return
    for _ in range(100_000):
        number = random_.randrange(len(singles))
        edit = random_.choice(singles[number])
        if kind == "pairs":
            other = random_.choice(singles[number])
            combined = Edit(edit.set | other.set, tuple(dict.fromkeys((*edit.unset, *other.unset))))
            if _applies(combined, bases[number]):
                yield Case("create", number, combined)
        elif kind == _EPHEMERAL:
            yield Case("update", number, edit, subresource=kind)
        elif kind == "status":
            in_status = [item for item in singles[number] if all(path.startswith("/status") for path in _paths(item))]
            if in_status and random_.random() < 0.9:
                edit = random_.choice(in_status)
            yield Case("update", number, edit, subresource="status")
        elif _identity(edit):
            continue
        elif kind == "update":
            yield Case("update", number, edit)
        elif (case := _patch(number, bases[number], shape, edit, random_)) is not None:
            yield case


def _ephemeral_edits(shape: Shape, random_: random.Random) -> Iterator[Edit]:
    """Yield additions of an ephemeral container with one or two fields changed."""
    path = "/spec/ephemeralContainers"
    item = shape.fields["spec"].fields["ephemeralContainers"].item
    edits = list(_edits(_DEBUGGER, item, random_))
    yield Edit({path: [_DEBUGGER, _DEBUGGER]})
    for edit in edits:
        yield Edit({path: [edit.apply(_DEBUGGER)]})


def _applies(edit: Edit, base: Json) -> bool:
    try:
        edit.apply(base)
    except (LookupError, ValueError, TypeError, AttributeError):
        return False
    return True


def _paths(edit: Edit) -> list[str]:
    return [*edit.set, *edit.unset]


def _identity(edit: Edit) -> bool:
    """Return whether the edit changes what finds the object."""
    return any(path in ("", "/metadata", "/metadata/name", "/kind", "/apiVersion") for path in _paths(edit))


def _patch(number: int, base: Json, shape: Shape, edit: Edit, random_: random.Random) -> Case | None:
    """Return the edit as a patch of a random kind, ``None`` where that kind cannot express it."""
    kind = random_.choice(("json", "merge", "strategic", "strategic", "apply", "apply"))
    if kind == "json":
        operations: list[Json] = [{"op": "remove", "path": path} for path in edit.unset]
        operations += [{"op": "add", "path": path, "value": value} for path, value in edit.set.items()]
        return Case("patch", number, patch=kind, body=operations)
    if edit.unset and kind == "apply":
        return None
    changes: dict[str, Json] = {**dict.fromkeys(edit.unset), **edit.set}
    body: Json = {}
    for path, value in changes.items():
        if kind == "merge" and any(token.isdigit() for token in split(path)):
            return None
        if not _nest(body, base, shape, split(path), value, apply=kind == "apply"):
            return None
    query = ""
    if kind == "apply":
        name = (base.get("metadata") or {}).get("name")
        body |= {"apiVersion": base["apiVersion"], "kind": base["kind"]}
        body["metadata"] = {"name": name, **(body.get("metadata") or {})}
        query = "fieldManager=tester" + random_.choice(("&force=true", "&force=true", ""))
    return Case("patch", number, patch=kind, body=body, query=query)


def _nest(body: Json, base: Json, shape: Shape, tokens: list[str], value: Json, *, apply: bool) -> bool:
    """Write *value* into a patch body; items of lists are named by their keys. Returns whether it is possible."""
    if isinstance(base, list):
        keys = shape.keys if apply else (shape.merge_key,) if shape.merge_key else ()
        index = int(tokens[0])
        if not keys or index >= len(base) or not isinstance(base[index], dict) or len(tokens) < 2:
            return False
        item = {key: base[index][key] for key in keys if key in base[index]}
        if len(item) < (1 if apply else len(keys)):
            return False
        body.append(item)
        return _nest(item, base[index], shape.item, tokens[1:], value, apply=apply)
    name, *rest = tokens
    if not rest:
        body[name] = value
        return True
    below = base.get(name) if isinstance(base, dict) else None
    child = shape.fields.get(name) if shape.form == "object" else shape.item if shape.form == "map" else None
    if child is None or not isinstance(below, dict | list):
        return False
    if name not in body:
        body[name] = [] if isinstance(below, list) else {}
    return _nest(body[name], below, child, rest, value, apply=apply)


def _edits(base: Json, shape: Shape, random_: random.Random) -> Iterator[Edit]:
    yield Edit()
    yield from _visit(base, shape, "", "", random_, 0)


def _visit(value: Json, shape: Shape, path: str, name: str, random_: random.Random, depth: int) -> Iterator[Edit]:
    """Yield the edits of *value* at *path* and of everything below."""
    if path:
        yield Edit(unset=(path,))
        for new in _values(shape, name, random_):
            yield Edit({path: new})
    if shape.form == "object" and isinstance(value, dict):
        yield Edit({join(path, "unknownField"): 1})
        for field, below in shape.fields.items():
            if path == "/metadata" and field in ("managedFields", "selfLink"):
                continue
            if field in value:
                yield from _visit(value[field], below, join(path, field), field, random_, depth + 1)
            else:
                for new in _values(below, field, random_):
                    yield Edit({join(path, field): new})
    elif shape.form == "map" and isinstance(value, dict):
        for key in _KEYS:
            yield Edit({join(path, key): _plausible(shape.item, key, random_)})
        for key in value:
            yield from _visit(value[key], shape.item, join(path, key), name, random_, depth + 1)
    elif shape.form == "list" and isinstance(value, list) and value:
        yield Edit({path: [*value, copy.deepcopy(value[0])]})
        yield Edit({path: list(reversed(value))})
        yield Edit({path: value[1:]})
        yield Edit({join(path, len(value)): _plausible(shape.item, name, random_)})
        for index, item in enumerate(value):
            yield from _visit(item, shape.item, join(path, index), name, random_, depth + 1)


def _values(shape: Shape, name: str, random_: random.Random) -> Iterator[Json]:
    """Yield interesting values of a field."""
    yield None
    yield from _NAMES.get(name, ())
    form = shape.form
    if form == "string":
        choices = shape.choices
        yield from choices
        yield from (choice.lower() for choice in choices[:1])
        yield from _STRINGS[:1]
        yield from random_.sample(_STRINGS, 9 if not choices else 2)
        yield 5
    elif form in ("int32", "int64"):
        yield 0
        yield from random_.sample(_INTEGERS, 8)
        yield random_.choice(("5", 1.5, True, 2**63))
    elif form == "bool":
        yield from (True, False, random_.choice(("true", 1)))
    elif form == "quantity":
        yield from random_.sample(_QUANTITIES, 8)
    elif form == "int-or-string":
        yield from (0, "", 80, "http", random_.choice((True, 1.5, 2**31)))
    elif form in ("time", "micro-time"):
        yield from random_.sample(_TIMES, 4)
    elif form == "bytes":
        yield from ("", "QUJD", "QU\nJD\n", "QUJD=", "VmFs=", "!!", 5)
    elif form == "map":
        yield {}
        for key in random_.sample(_KEYS, 3):
            yield {key: _plausible(shape.item, key, random_)}
        yield {"a": random_.choice(list(_values(shape.item, name, random_)))}
    elif form == "list":
        yield []
        item = _plausible(shape.item, name, random_)
        yield [item]
        yield [item, copy.deepcopy(item)]
        yield [random_.choice(list(_values(shape.item, name, random_)))]
        yield random_.choice(("text", {}, [None]))
    elif form == "object":
        yield {}
        yield _plausible(shape, name, random_)
        yield _plausible(shape, name, random_)
        fields = list(shape.fields.items())
        for field, below in random_.sample(fields, min(4, len(fields))):
            yield {field: random_.choice(list(_values(below, field, random_)))}
        yield random_.choice(("text", [], 5))
    else:
        yield from ({}, {"a": 1}, "text")


def _plausible(shape: Shape, name: str, random_: random.Random, depth: int = 0) -> Json:
    """Return a value that could be valid."""
    form = shape.form
    if name in _NAMES and form not in ("object", "map"):
        value = _NAMES[name][0]
        if isinstance(value, list) == (form == "list"):
            return copy.deepcopy(value)
    if form == "string":
        return shape.choices[0] if shape.choices else "abc"
    if form in ("int32", "int64", "int-or-string"):
        return random_.choice((1, 80))
    simple = {"bool": True, "quantity": "1", "time": _TIMES[0], "micro-time": _TIMES[1], "bytes": "QUJD", "float": 1.5}
    if form in simple:
        return simple[form]
    if form == "list":
        return [_plausible(shape.item, name, random_, depth + 1)] if depth < 4 else []
    if form == "map":
        return {"a": _plausible(shape.item, name, random_, depth + 1)}
    if form == "object" and depth < 4:
        required = set(shape.node.get("required", ()))
        return {
            field: _plausible(below, field, random_, depth + 1)
            for field, below in shape.fields.items()
            if field in required or random_.random() < 0.35
        }
    return {}


__all__ = ["generate", "put"]
