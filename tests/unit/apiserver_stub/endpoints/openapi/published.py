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
def documents() -> Mapping[str, Any]:
    """Return the documents of the oldest release by name."""
    return {name: msgspec.json.decode(body) for name, body in built_at(OLDEST.minor).items()}


def schemas_at(minor: int, *, enums: bool = True, name: str = "api/v1") -> Any:
    document = msgspec.json.decode(built_at(minor, enums=enums)[name])
    return document["components"]["schemas"] if name else document["definitions"]
