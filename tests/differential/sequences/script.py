"""The steps of a scenario as they are written, and the objects that scenarios are about. No I/O."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.differential.edits import Json
from tests.differential.scenarios import NAMESPACE, Step

JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
YAML = "application/yaml"


def ref(step: int, path: str, offset: int = 0) -> str:
    """Return a reference to a field of the response to *step*."""
    return f"<{step}.{path}{offset:+d}>" if offset else f"<{step}.{path}>"


def version(step: int) -> str:
    """Return a reference to the resource version in the response to *step*."""
    return ref(step, "metadata.resourceVersion")


@dataclass(frozen=True)
class Kind:
    """A kind with a valid object and valid changes of it."""

    api_version: str
    kind: str
    plural: str
    content: Json
    """The object without ``metadata``."""
    changes: Sequence[Json] = ()
    """Merge patches."""
    fields: Sequence[str] = ()
    """Field selectors, valid for the kind or not."""
    namespaced: bool = True
    creates_on_update: bool = False
    status: Sequence[Json] = ()
    """Values of the status."""
    metadata: Json = field(default_factory=dict)

    @property
    def path(self) -> str:
        root = f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"
        return f"{root}/namespaces/{NAMESPACE}/{self.plural}" if self.namespaced else f"{root}/{self.plural}"

    def name(self, name: str) -> str:
        """Return *name*, made unique for kinds without a namespace."""
        return name if self.namespaced else f"{NAMESPACE}-{name}"

    def item(self, name: str) -> str:
        """Return the path of an object."""
        return f"{self.path}/{self.name(name)}"

    def object(self, name: str, **metadata: Any) -> Json:
        """Return an object to create."""
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "metadata": {"name": self.name(name), **self.metadata, **metadata},
            **self.content,
        }


@dataclass
class Script:
    """Collects the steps of one scenario; every method returns the number of its step."""

    steps: list[Step] = field(default_factory=list)
    user: str = ""
    """User of the following steps; empty for the administrator."""

    def send(
        self,
        method: str,
        path: str,
        body: Json = None,
        query: str = "",
        content_type: str = JSON,
        *,
        accept: str = "",
        until: str = "",
    ) -> int:
        target = f"{path}?{query}" if query else path
        self.steps.append(Step(method, target, body, content_type, accept or JSON, until, self.user))
        return len(self.steps) - 1

    def get(self, path: str, query: str = "", accept: str = "", until: str = "") -> int:
        return self.send("GET", path, query=query, accept=accept, until=until)

    def post(self, path: str, body: Json, query: str = "", content_type: str = JSON, accept: str = "") -> int:
        return self.send("POST", path, body, query, content_type, accept=accept)

    def put(self, path: str, body: Json, query: str = "", content_type: str = JSON, accept: str = "") -> int:
        return self.send("PUT", path, body, query, content_type, accept=accept)

    def patch(self, path: str, body: Json, content_type: str = MERGE_PATCH, query: str = "", accept: str = "") -> int:
        return self.send("PATCH", path, body, query, content_type, accept=accept)

    def apply(self, path: str, body: Json, manager: str, query: str = "") -> int:
        return self.send("PATCH", path, body, f"fieldManager={manager}{'&' + query if query else ''}", APPLY_PATCH)

    def delete(self, path: str, body: Json = None, query: str = "", accept: str = "") -> int:
        return self.send("DELETE", path, body, query, accept=accept)


Writer = Callable[[Script, random.Random], None]
"""Writes the steps of one variation of a sequence."""
