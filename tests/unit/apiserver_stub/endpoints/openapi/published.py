"""Published OpenAPI documents of the served resources.

They are built by the tests, not at import, as they depend on the code under test.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec

from apiserver_stub.endpoints import openapi
from apiserver_stub.options import Options
from apiserver_stub.server.kinds import build_registry
from nodeagent.base.identity import Identity
from nodeagent.base.release import OLDEST, Release

META = "io.k8s.apimachinery.pkg.apis.meta.v1."


@cache
def built_at(minor: int, *, enums: bool = True) -> Mapping[str, bytes]:
    return openapi._build(build_registry(Options()), Identity(), Release(1, minor), enums=enums)


@cache
def document_at(minor: int, name: str, *, enums: bool = True) -> Any:
    """Return a document of a release; the tests share it and must not change it."""
    return msgspec.json.decode(built_at(minor, enums=enums)[name])


def documents() -> Mapping[str, Any]:
    """Return the documents of the oldest release by name."""
    return {name: document_at(OLDEST.minor, name) for name in built_at(OLDEST.minor)}


def schemas_at(minor: int, *, enums: bool = True, name: str = "api/v1") -> Any:
    document = document_at(minor, name, enums=enums)
    return document["components"]["schemas"] if name else document["definitions"]
