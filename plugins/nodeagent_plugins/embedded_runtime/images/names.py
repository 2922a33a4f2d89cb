"""Names of images."""

from __future__ import annotations

import re
from dataclasses import dataclass

from nodeagent_plugins.embedded_runtime.errors import BadRequest

DEFAULT_REGISTRY = "docker.io"
_DIGEST = re.compile(r"[a-z0-9]+:[0-9a-f]{32,}")
_NAME = re.compile(
    r"(?P<repository>[a-zA-Z0-9][a-zA-Z0-9.-]*(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*)"
    r"(:(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?(@(?P<digest>[a-z0-9]+:[0-9a-f]{32,}))?"
)


@dataclass(frozen=True, slots=True)
class Name:
    """A full name: registry, path, and a tag or a digest or both."""

    registry: str
    path: str
    tag: str = ""
    digest: str = ""

    @property
    def repository(self) -> str:
        return f"{self.registry}/{self.path}"

    @property
    def tagged(self) -> str:
        """The name with its tag; empty if it has none."""
        return f"{self.repository}:{self.tag}" if self.tag else ""

    @property
    def reference(self) -> str:
        """What to ask a registry for: the digest if there is one."""
        return self.digest or self.tag

    def __str__(self) -> str:
        return f"{self.tagged or self.repository}{f'@{self.digest}' if self.digest else ''}"


def parse_name(text: str) -> Name:
    """Return the full name that *text* stands for: ``busybox`` is ``docker.io/library/busybox:latest``.

    :raises BadRequest: it is no name of an image.
    """
    found = _NAME.fullmatch(text)
    if found is None:
        raise BadRequest(f'"{text}" is no name of an image')
    registry, slash, path = found["repository"].partition("/")
    if not slash or not ("." in registry or ":" in registry or registry == "localhost"):
        registry, path = DEFAULT_REGISTRY, found["repository"]
    if path != path.lower() or ":" in path:
        raise BadRequest(f'"{text}" is no name of an image')
    if registry == DEFAULT_REGISTRY and "/" not in path:
        path = f"library/{path}"
    tag = found["tag"] or ("" if found["digest"] else "latest")
    return Name(registry, path, tag, found["digest"] or "")


def is_id(text: str) -> bool:
    """Tell whether *text* is an image's id, whole or its beginning, rather than a name."""
    return bool(_DIGEST.fullmatch(text) or re.fullmatch(r"[0-9a-f]{12,64}", text))
