"""Parameters that operations of a path, or paths of a document, share."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from typing import Any

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object

_NOT_SHARED = ("name", "fieldValidation", "dryRun")
"""Parameters that describe a kind, or that old versions of kubectl search for in operations."""
_GENERIC_BODIES = "#/definitions/io.k8s.apimachinery"


def move_common(item: Object) -> None:
    """Move the parameters that all operations of a path have to the path, as clients expect them there."""
    operations = list(item.values())
    if not operations:
        return
    common = [
        found for found in operations[0]["parameters"] if all(found in other["parameters"] for other in operations)
    ]
    common = [found for found in common if found["in"] != "body"]
    for operation in operations:
        operation["parameters"] = [found for found in operation["parameters"] if found not in common]
        if not operation["parameters"]:
            del operation["parameters"]
    if common:
        item["parameters"] = common


def share(paths: Object) -> Object:
    """Replace parameters that do not depend on a kind by references, and return the shared parameters by name."""
    shared: Object = {}
    for found in _lists(paths):
        for position, content in enumerate(found):
            if not _is_shared(content):
                continue
            digest = hashlib.sha256(objects.encode(content)).digest()[:6]
            name = f"{content['name']}-{base64.urlsafe_b64encode(digest).decode()}"
            shared[name] = content
            found[position] = {"$ref": f"#/parameters/{name}"}
    return dict(sorted(shared.items()))


def _lists(paths: Object) -> Iterator[list[Any]]:
    """Yield the lists of parameters of paths and their operations."""
    for item in paths.values():
        for content in item.values():
            found = content if isinstance(content, list) else content.get("parameters")
            if found:
                yield found


def _is_shared(content: Object) -> bool:
    if content["in"] == "body":
        return bool(content["schema"].get("$ref", "").startswith(_GENERIC_BODIES))
    return content["name"] not in _NOT_SHARED
