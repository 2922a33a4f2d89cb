"""Scenarios about server-side apply: conflicts, force, removal of fields, owners after other writes. No I/O."""

from __future__ import annotations

import copy
import random
from typing import Any

from tests.differential.edits import Json
from tests.differential.sequences.kinds import BUDGET, CONFIG_MAP, INGRESS, KINDS, POD, QUOTA, SECRET, SERVICE
from tests.differential.sequences.script import STRATEGIC_PATCH, Kind, Script, Writer, version

_MANAGERS = ("one", "two", "three")


def _config(kind: Kind, name: str = "a", **content: Any) -> Json:
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": kind.name(name)}, **content}


def _config_map_part(random_: random.Random) -> Json:
    keys = random_.sample("abcd", random_.randint(0, 3))
    config = _config(CONFIG_MAP, data={key: random_.choice(("1", "2")) for key in keys})
    if random_.random() < 0.4:
        config["metadata"]["labels"] = {random_.choice("xy"): random_.choice("12")}
    if random_.random() < 0.2:
        del config["data"]
    if random_.random() < 0.1:
        config["data"] = None
    return config


def _service_part(random_: random.Random) -> Json:
    ports = []
    for port in random_.sample((80, 81, 53), random_.randint(0, 3)):
        item: dict[str, Any] = {"port": port, "name": f"p{port}"}
        if random_.random() < 0.4:
            item["protocol"] = random_.choice(("TCP", "UDP"))
        if random_.random() < 0.4:
            item["targetPort"] = random_.choice((8080, "http"))
        ports.append(item)
    spec: dict[str, Any] = {"ports": ports}
    if random_.random() < 0.5:
        spec["selector"] = {"app": random_.choice(("web", "db"))}
    if random_.random() < 0.3:
        spec["sessionAffinity"] = random_.choice(("None", "ClientIP"))
    return _config(SERVICE, spec=spec)


def _pod_part(random_: random.Random) -> Json:
    containers = []
    for name in random_.sample(("web", "side", "third"), random_.randint(1, 3)):
        item: dict[str, Any] = {"name": name, "image": random_.choice(("nginx:1", "nginx:2"))}
        if random_.random() < 0.5:
            names = random_.sample("ABC", random_.randint(0, 3))
            item["env"] = [{"name": key, "value": random_.choice("12")} for key in names]
        if random_.random() < 0.4:
            item["ports"] = [{"containerPort": port} for port in random_.sample((80, 81), random_.randint(0, 2))]
        containers.append(item)
    config = _config(POD, spec={"containers": containers})
    if random_.random() < 0.4:
        config["metadata"]["finalizers"] = [f"example.com/{name}" for name in random_.sample("xyz", 2)]
    if random_.random() < 0.3:
        config["spec"]["tolerations"] = [{"key": random_.choice("ab"), "operator": "Exists"}]
    if random_.random() < 0.3:
        config["metadata"]["annotations"] = {"note": random_.choice("12")}
    return config


_PARTS = ((CONFIG_MAP, _config_map_part), (SERVICE, _service_part), (POD, _pod_part))


def several_managers(script: Script, random_: random.Random) -> None:
    """Apply parts of an object under several names, forced or not, with updates in between."""
    kind, part = random_.choice(_PARTS)
    item = kind.item("a")
    if random_.random() < 0.5:
        script.post(kind.path, kind.object("a"), "fieldManager=creator")
    for _ in range(random_.randint(7, 12)):
        manager = random_.choice(_MANAGERS)
        match random_.randrange(8):
            case 0:
                script.patch(item, random_.choice(kind.changes), query=f"fieldManager={manager}")
            case 1:
                script.put(item, kind.object("a"), f"fieldManager={manager}")
            case 2:
                script.apply(item, part(random_), manager, "dryRun=All&force=true")
            case 3 | 4:
                script.apply(item, part(random_), manager)
            case _:
                script.apply(item, part(random_), manager, "force=true")
    script.get(item)


def repeated_and_given_up(script: Script, random_: random.Random) -> None:
    """Apply a whole object, again, less and less of it, and finally nothing."""
    kind = random_.choice([kind for kind in KINDS if kind is not BUDGET])
    item, config = kind.item("a"), kind.object("a", labels={"app": "web"})
    script.apply(item, config, "one")
    script.apply(item, config, "one")
    script.apply(item, config, random_.choice(_MANAGERS))
    less = copy.deepcopy(config)
    del less["metadata"]["labels"]
    script.apply(item, less, "one", random_.choice(("", "force=true")))
    script.apply(item, {**_config(kind), **random_.choice(kind.changes)}, "two", random_.choice(("", "force=true")))
    script.apply(item, _config(kind), "one")
    script.apply(item, _config(kind), "two")
    script.get(item)


def status(script: Script, random_: random.Random) -> None:
    """Apply to the status subresource; the status in a configuration of the object itself is ignored."""
    kind = random_.choice((SERVICE, POD, BUDGET, QUOTA, INGRESS))
    item = kind.item("a")
    script.apply(f"{item}/status", _config(kind, status=kind.status[0]), "one")
    script.post(kind.path, kind.object("a"), "fieldManager=creator")
    for _ in range(5):
        chosen, manager = random_.choice(kind.status), random_.choice(_MANAGERS)
        content = {"status": chosen} if random_.random() < 0.7 else {"status": chosen, **kind.content}
        path = random_.choice((item, f"{item}/status", f"{item}/status"))
        script.apply(path, _config(kind, **content), manager, random_.choice(("", "force=true")))
    script.get(item)
    script.patch(f"{item}/status", {"status": random_.choice(kind.status)}, query="fieldManager=four")
    script.get(f"{item}/status")


def invalid_configurations(script: Script, random_: random.Random) -> None:
    """Apply what is not a configuration of the object."""
    kind = random_.choice((CONFIG_MAP, SERVICE, POD, SECRET))
    item = kind.item("a")
    bodies: list[Json] = [
        {},
        "",
        "- a\n",
        "a: [",
        _config(kind, name="b"),
        {**_config(kind), "apiVersion": "v2"},
        {**_config(kind), "kind": "Odd"},
        {**_config(kind), "metadata": {"name": "a", "namespace": "other"}},
        {**_config(kind), "metadata": {"name": "a", "managedFields": []}},
        {**_config(kind), "metadata": {"name": "a", "resourceVersion": "1"}},
        {**_config(kind), "metadata": {"name": "a", "uid": "x"}},
        {**_config(kind), "metadata": {}},
        _config(kind, unknown=1),
        _config(kind, metadata={"name": "a", "labels": []}),
        _config(kind, metadata={"name": "a", "finalizers": ["example.com/a", "example.com/a"]}),
        _config(SERVICE, spec={"ports": [{"port": 80}, {"port": 80}]}),
        _config(SERVICE, spec={"ports": [{"name": "a"}]}),
        _config(POD, spec={"containers": [{"image": "nginx:1"}]}),
        _config(POD, spec={"containers": "text"}),
    ]
    if random_.random() < 0.6:
        script.post(kind.path, kind.object("a"))
    for body in random_.sample(bodies, 8):
        script.apply(item, body, "one", random_.choice(("", "force=true")))
    script.send("PATCH", item, _config(kind), "", "application/apply-patch+yaml")
    script.send("PATCH", item, _config(kind), "fieldManager=one&force=x", "application/apply-patch+yaml")
    script.patch(item, {}, query="force=true")
    script.get(item)


def entries_given_by_a_client(script: Script, random_: random.Random) -> None:
    """Write ``managedFields``: reset them, replace them, and give invalid ones."""
    item = CONFIG_MAP.item("a")
    script.apply(item, CONFIG_MAP.object("a"), "one")
    entry = {"manager": "m", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    values: list[Json] = [
        [],
        [{}],
        None,
        [{**entry, "fieldsV1": {"f:data": {"f:a": {}}}}],
        [{**entry, "fieldsV1": {"f:data": {"f:a": {}}}, "operation": "Odd"}],
        [{**entry, "fieldsV1": {"x": {}}}],
        [{**entry, "fieldsV1": {"f:data": {"f:zzz": {}}}}],
        [{**entry, "apiVersion": "v9", "fieldsV1": {"f:data": {"f:a": {}}}}],
        [{**entry, "apiVersion": "", "fieldsV1": {"f:data": {}}}],
    ]
    for value in random_.sample(values, 4):
        body = {"metadata": {"managedFields": value}}
        if random_.random() < 0.6:
            script.patch(item, body, random_.choice((STRATEGIC_PATCH, "application/merge-patch+json")))
        else:
            script.put(item, CONFIG_MAP.object("a", managedFields=value), "fieldManager=two")
        script.apply(item, _config_map_part(random_), random_.choice(("one", "m")), "force=true")
    script.get(item)


def client_side_and_server_side(script: Script, random_: random.Random) -> None:
    """Create as kubectl does without server-side apply, then apply under the same and another name."""
    last = '{"apiVersion":"v1","data":{"a":"1","b":"2"},"kind":"ConfigMap","metadata":{"name":"a"}}\n'
    note = "kubectl.kubernetes.io/last-applied-configuration"
    item, obj = CONFIG_MAP.item("a"), CONFIG_MAP.object("a", annotations={note: last})
    script.post(CONFIG_MAP.path, obj, "fieldManager=kubectl-client-side-apply")
    config = _config(CONFIG_MAP, data={"a": random_.choice("123")})
    script.apply(item, config, random_.choice(("kubectl", "other")))
    script.apply(item, config, "kubectl", "force=true")
    script.patch(item, {"data": {"c": "1"}}, query="fieldManager=kubectl-client-side-apply")
    script.apply(item, _config(CONFIG_MAP, data={"c": "2"}), "kubectl")
    read = script.get(item)
    script.put(item, CONFIG_MAP.object("a", resourceVersion=version(read)), "fieldManager=kubectl-replace")
    script.get(item)


def many_updaters(script: Script, random_: random.Random) -> None:
    """Update under more names than an object keeps entries for."""
    item = CONFIG_MAP.item("a")
    script.apply(item, CONFIG_MAP.object("a"), "applier")
    for number in range(12):
        script.patch(item, {"data": {f"k{number}": random_.choice("12")}}, query=f"fieldManager=m{number + 10}")
    script.get(item)


SEQUENCES: tuple[tuple[Writer, int], ...] = (
    (several_managers, 24),
    (repeated_and_given_up, 12),
    (status, 10),
    (invalid_configurations, 8),
    (entries_given_by_a_client, 8),
    (client_side_and_server_side, 4),
    (many_updaters, 1),
)
