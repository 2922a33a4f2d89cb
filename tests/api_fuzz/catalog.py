"""Resources of a server with their verbs, schemas and example objects, from its discovery documents."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.differential import catalog as differential
from tests.differential.schema import Shape, kind_shape

GROUP = "fuzz.example.com"
_OBJECTS = Path(__file__).with_name("objects.yaml")
Get = Callable[[str], Any]


@dataclass(frozen=True)
class Target:
    """A resource or subresource of one version."""

    root: str
    """Path of the version, such as ``/apis/apps/v1``."""
    plural: str
    subresource: str
    namespaced: bool
    api_version: str
    """Version of the objects in requests, which differs from the resource's for some subresources."""
    kind: str
    verbs: frozenset[str]
    shape: Shape
    examples: Sequence[dict[str, Any]]

    def path(self, namespace: str, name: str) -> str:
        """Return the path of an object, or of the collection without *name*."""
        parts = [self.root, *(("namespaces", namespace) if self.namespaced and namespace else ()), self.plural]
        if name:
            parts += [name, *((self.subresource,) if self.subresource else ())]
        return "/".join(parts)

    @property
    def group(self) -> str:
        return self.root.split("/")[2] if self.root.startswith("/apis/") else ""


@dataclass(frozen=True)
class Catalog:
    """All targets, sorted, and the paths that are not resources."""

    targets: Sequence[Target]
    paths: Sequence[str]

    def objects(self) -> Sequence[Target]:
        """Return the targets that are no subresources."""
        return [item for item in self.targets if not item.subresource]


def definitions() -> list[dict[str, Any]]:
    """Return the custom resource definitions that exist in each batch."""
    return [item for item in _own_examples() if item["kind"] == "CustomResourceDefinition"]


def read_catalog(get: Get) -> Catalog:
    """Return the catalog of a server that serves the custom resources of :func:`definitions`."""
    document, examples = get("/openapi/v2"), _examples()
    roots = ["/api/v1"]
    for group in get("/apis")["groups"]:
        roots += [f"/apis/{version['groupVersion']}" for version in group["versions"]]
    targets = [target for root in sorted(roots) for target in _targets(root, get(root), document, examples)]
    paths = sorted(
        {path for path in get("/")["paths"] if path} | {"/", "/version", "/openapi/v2", "/openapi/v3", *roots}
    )
    return Catalog(targets, paths)


def _targets(
    root: str, resources: Any, document: dict[str, Any], examples: dict[tuple[str, str], list[dict[str, Any]]]
) -> list[Target]:
    found = []
    for item in sorted(resources["resources"], key=lambda item: item["name"]):
        plural, _, subresource = item["name"].partition("/")
        group_version = resources["groupVersion"]
        if "version" in item:
            group_version = f"{item['group']}/{item['version']}" if item.get("group") else item["version"]
        kind = item["kind"]
        try:
            shape = kind_shape(document, group_version, kind)
        except LookupError:
            shape = Shape("any", document, {})
        known = examples.get((group_version, kind)) or [
            {**example, "apiVersion": group_version}
            for (_, other), all_ in examples.items()
            if other == kind
            for example in all_
        ]
        found.append(
            Target(
                root,
                plural,
                subresource,
                item["namespaced"],
                group_version,
                kind,
                frozenset(item["verbs"]),
                shape,
                known or [{"apiVersion": group_version, "kind": kind, "metadata": {"name": "full"}}],
            )
        )
    return found


def _examples() -> dict[tuple[str, str], list[dict[str, Any]]]:
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    known = differential.resources(differential.OBJECTS) + differential.resources(differential.NEWEST_OBJECTS[1:])
    examples = [example for resource in known for example in resource.bases]
    for example in [*examples, *_own_examples()]:
        found.setdefault((example["apiVersion"], example["kind"]), []).append(example)
    return found


@functools.cache
def _own_examples() -> list[dict[str, Any]]:
    return list(yaml.load_all(_OBJECTS.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
