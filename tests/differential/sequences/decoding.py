"""Scenarios about bodies: unknown and duplicate fields, YAML, wrong kinds, names and types. No I/O."""

from __future__ import annotations

import json
import random
from typing import Any

from tests.differential.sequences.kinds import CONFIG_MAP, KINDS, NAMESPACED, POD, SERVICE
from tests.differential.sequences.script import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    YAML,
    Kind,
    Script,
    Writer,
)

_MODES = ("", "fieldValidation=Strict", "fieldValidation=Warn", "fieldValidation=Ignore", "fieldValidation=Odd")


def unknown_and_duplicate_fields(script: Script, random_: random.Random) -> None:
    """Send unknown and duplicate fields with every verb."""
    item = CONFIG_MAP.item("a")
    once = '"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":{"l":"1","l":"2"}}'
    texts = [
        f'{{{once},"data":{{"a":"1","a":"2"}}}}',
        f'{{{once},"unknown":1,"data":{{"a":"1"}}}}',
        f'{{{once},"unknown":{{"x":[{{"y":1,"y":2}}]}},"immutable":false,"immutable":false}}',
        f'{{{once},"Data":{{"a":"1"}},"metadata":{{"name":"a"}}}}',
    ]
    for text in texts:
        script.post(CONFIG_MAP.path, text, f"dryRun=All&{random_.choice(_MODES)}")
    script.post(CONFIG_MAP.path, CONFIG_MAP.object("a"))
    for text in texts:
        script.put(item, text, random_.choice(_MODES))
    for media_type in (MERGE_PATCH, STRATEGIC_PATCH):
        script.patch(item, '{"data":{"z":"1","z":"2"},"unknown":1}', media_type, random_.choice(_MODES))
    script.patch(
        item, '[{"op":"add","path":"/data/y","value":"1","value":"2","odd":1}]', JSON_PATCH, random_.choice(_MODES)
    )
    script.patch(item, texts[1], APPLY_PATCH, f"fieldManager=x&{random_.choice(_MODES)}")
    script.get(item)


def yaml_bodies(script: Script, random_: random.Random) -> None:
    """Send YAML in several media types, with duplicate and unknown keys."""
    item = CONFIG_MAP.item("a")
    head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
    texts = [
        f"{head}data:\n  a: '1'\n",
        f"{head}data:\n  a: '1'\n  a: '2'\n",
        f"{head}data:\n  a: 1\n",
        f"{head}data: {{a: yes}}\n",
        f"{head}unknown: 1\n",
        f"{head}immutable: True\n",
        f"---\n{head}",
        f"{head}---\n{head}",
        "a: [\n",
        "",
        "null",
        "[]",
        f"{head}data: &x {{a: b}}\nbinaryData: {{}}\n",
        json.dumps(CONFIG_MAP.object("a")),
    ]
    random_.shuffle(texts)
    for text in texts[:7]:
        mode = random_.choice(_MODES)
        script.post(CONFIG_MAP.path, text, f"dryRun=All{'&' + mode if mode else ''}", YAML)
    script.post(CONFIG_MAP.path, texts[0], "", random_.choice((YAML, "application/json", "text/yaml", "")))
    script.post(CONFIG_MAP.path, f"{head}data: {{a: '1'}}\n", "", YAML)
    for text in texts[7:]:
        script.put(item, text, random_.choice(_MODES), YAML)
    script.patch(item, texts[1], APPLY_PATCH, "fieldManager=x&force=true")
    script.get(item)


def wrong_kinds_and_names(script: Script, random_: random.Random) -> None:
    """Send objects of other kinds, versions, names and namespaces, and bodies that are no objects."""
    kind = random_.choice(KINDS)
    item, good = kind.item("a"), kind.object("a")
    bodies = [
        {**good, "kind": "Odd"},
        {**good, "kind": ""},
        {**good, "kind": 5},
        {**good, "apiVersion": "odd/v1"},
        {**good, "apiVersion": "v2"},
        {**good, "apiVersion": ""},
        {**good, "metadata": None},
        {**good, "metadata": "x"},
        {**good, "metadata": {**good["metadata"], "namespace": "other"}},
        {**good, "metadata": {**good["metadata"], "name": 5}},
        {**good, "metadata": {**good["metadata"], "labels": {"a": 1}}},
        {**good, "metadata": {**good["metadata"], "annotations": ["a"]}},
        {},
        [],
        "null",
        "text",
        "",
        '{"a"',
        {"kind": "Status", "apiVersion": "v1"},
        {"kind": "List", "apiVersion": "v1", "items": []},
        {"kind": f"{kind.kind}List", "apiVersion": kind.api_version, "items": []},
    ]
    random_.shuffle(bodies)
    for body in bodies[:9]:
        script.post(kind.path, body)
    script.post(kind.path, good)
    for body in bodies[9:15]:
        script.put(item, body)
    script.get(item)


def wrong_types(script: Script, random_: random.Random) -> None:
    """Send values of another type than that of their field."""
    changes: tuple[tuple[Kind, dict[str, Any]], ...] = (
        (CONFIG_MAP, {"data": "x"}),
        (CONFIG_MAP, {"data": {"a": 1}}),
        (CONFIG_MAP, {"immutable": "true"}),
        (CONFIG_MAP, {"binaryData": {"a": "!"}}),
        (SERVICE, {"spec": {"ports": [{"port": "80"}]}}),
        (SERVICE, {"spec": {"ports": [{"port": 1.5}]}}),
        (SERVICE, {"spec": {"ports": {"port": 80}}}),
        (SERVICE, {"spec": {"ports": [{"port": 80, "targetPort": True}]}}),
        (SERVICE, {"spec": []}),
        (POD, {"spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "x"}}}]}}),
        (POD, {"spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": True}}}]}}),
        (POD, {"spec": {"containers": [None]}}),
        (POD, {"spec": {"activeDeadlineSeconds": 2**63}}),
        (POD, {"spec": {"hostNetwork": 1}}),
        (POD, {"metadata": {"creationTimestamp": "x"}}),
        (POD, {"metadata": {"generation": "1"}}),
    )
    chosen = random_.sample(changes, 8)
    for kind in (CONFIG_MAP, SERVICE, POD):
        script.post(kind.path, kind.object("a"))
    for kind, content in chosen:
        obj = kind.object("b")
        metadata = {**obj["metadata"], **content.get("metadata", {})}
        script.post(kind.path, {**obj, **content, "metadata": metadata})
        media_type = random_.choice((MERGE_PATCH, STRATEGIC_PATCH))
        script.patch(kind.item("a"), content, media_type)


def methods_and_paths(script: Script, random_: random.Random) -> None:
    """Send methods that a resource does not have, and paths that do not exist."""
    kind = random_.choice(NAMESPACED)
    script.post(kind.path, kind.object("a"))
    requests = [
        ("POST", kind.item("a"), kind.object("a")),
        ("PUT", kind.path, kind.object("a")),
        ("PATCH", kind.path, {}),
        ("GET", f"{kind.item('a')}/odd", None),
        ("GET", f"{kind.item('a')}/status", None),
        ("POST", f"{kind.item('a')}/status", {}),
        ("DELETE", f"{kind.item('a')}/status", None),
        ("GET", f"{kind.path}s", None),
        ("GET", kind.path.replace("/v1/", "/v9/"), None),
        ("GET", f"/apis/odd.example.com/v1/namespaces/<ns>/{kind.plural}", None),
        ("GET", f"{kind.path}/a/b/c", None),
        ("POST", kind.path.replace("<ns>", "missing"), kind.object("a")),
        ("GET", kind.path.replace("<ns>", "missing"), None),
        ("GET", f"{kind.path.replace('<ns>', 'missing')}/a", None),
        ("GET", f"{kind.path}/Bad_Name", None),
        ("GET", f"{kind.path}?dryRun=All&odd=1", None),
        ("GET", f"{kind.path}?timeoutSeconds=x", None),
        ("POST", f"{kind.path}?dryRun=All&fieldManager={'x' * 129}", kind.object("b")),
        ("POST", f"{kind.path}?dryRun=All&fieldManager=%00", kind.object("b")),
        ("POST", f"{kind.path}?dryRun=Odd", kind.object("b")),
        ("POST", f"{kind.path}?pretty=true&dryRun=All", kind.object("b")),
        ("OPTIONS", kind.path, None),
    ]
    for method, path, body in random_.sample(requests, 12):
        script.send(method, path, body)


SEQUENCES: tuple[tuple[Writer, int], ...] = (
    (unknown_and_duplicate_fields, 6),
    (yaml_bodies, 6),
    (wrong_kinds_and_names, 10),
    (wrong_types, 6),
    (methods_and_paths, 8),
)
