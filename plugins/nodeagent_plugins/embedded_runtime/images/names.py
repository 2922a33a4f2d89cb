"""Image names."""

from __future__ import annotations

import re

from nodeagent.model.image_name import DEFAULT_TAG, ImageName, parse_image_name
from nodeagent_plugins.embedded_runtime.errors import InvalidArgument

_DIGEST = re.compile(r"[a-z0-9]+:[0-9a-f]{32,}")


class Name(ImageName, frozen=True):
    """A full name: registry, path, and tag, digest or both."""

    @property
    def tagged(self) -> str:
        """The name with its tag; empty if it has none."""
        return f"{self.repository}:{self.tag}" if self.tag else ""

    @property
    def reference(self) -> str:
        """The reference in registry requests: the digest if there is one."""
        return self.digest or self.tag

    def __str__(self) -> str:
        return f"{self.tagged or self.repository}{f'@{self.digest}' if self.digest else ''}"


def parse_name(text: str) -> Name:
    """Return the full name of *text*: ``busybox`` is ``docker.io/library/busybox:latest``.

    :raises InvalidArgument: the name is invalid.
    """
    try:
        found = parse_image_name(text)
    except ValueError as error:
        raise InvalidArgument(f'invalid image name "{text}": {error}') from None
    tag = found.tag or ("" if found.digest else DEFAULT_TAG)
    return Name(found.domain, found.path, tag, found.digest)


def is_id(text: str) -> bool:
    """Return whether *text* is an image ID or a prefix of one, not a name."""
    return bool(_DIGEST.fullmatch(text) or re.fullmatch(r"[0-9a-f]{12,64}", text))
