"""Image names: registry, repository, tag and digest.

Custom, since no maintained package has only this grammar.
"""

from __future__ import annotations

import re

from nodeagent.base.structs import Struct

DEFAULT_DOMAIN = "docker.io"
DEFAULT_TAG = "latest"
_OFFICIAL = "library"
_MAX_NAME = 255

_DOMAIN_PART = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_DOMAIN = re.compile(rf"(?:{_DOMAIN_PART}(?:\.{_DOMAIN_PART})*|\[[0-9A-Fa-f:]+\])(?::[0-9]+)?")
_PATH_PART = re.compile(r"[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}")
_HEX_ID = re.compile(r"[0-9a-f]{64}")


class ImageName(Struct, frozen=True):
    """Parsed image name; ``domain`` and ``path`` are complete, ``tag`` and ``digest`` may be empty."""

    domain: str
    path: str
    tag: str = ""
    digest: str = ""

    @property
    def repository(self) -> str:
        """Name without tag and digest, such as ``docker.io/library/busybox``."""
        return f"{self.domain}/{self.path}"


def parse_image_name(text: str) -> ImageName:
    """Parse an image name as in a pod (``busybox``, ``reg.example:5000/a/b:1``, ``a@sha256:…``).

    :raises ValueError: it is not an image name; the message is a predicate.
    """
    rest, at, digest = text.partition("@")
    if at and not _valid_digest(digest):
        raise ValueError("has an invalid digest")
    tag = ""
    colon = rest.rfind(":")
    if colon > rest.rfind("/"):
        rest, tag = rest[:colon], rest[colon + 1 :]
        if not _TAG.fullmatch(tag):
            raise ValueError("has an invalid tag")
    if _HEX_ID.fullmatch(rest):
        raise ValueError("is 64 hexadecimal digits, which reads as an image id")
    domain, path = _split_domain(rest)
    if not _DOMAIN.fullmatch(domain):
        raise ValueError("has an invalid registry host")
    if path.lower() != path:
        raise ValueError("must have a repository name in lower case")
    if not all(_PATH_PART.fullmatch(part) for part in path.split("/")):
        raise ValueError("has an invalid reference format")
    if len(domain) + 1 + len(path) > _MAX_NAME:
        raise ValueError(f"has a repository name longer than {_MAX_NAME} characters")
    return ImageName(domain, path, tag, digest)


def with_default_tag(text: str, name: ImageName) -> str:
    """Return *text* with ``:latest`` if it has neither tag nor digest.

    The registry is not completed: a runtime may have a list of registries for short names.
    """
    return text if name.tag or name.digest else f"{text}:{DEFAULT_TAG}"


def full_name(text: str) -> str:
    """Return the complete image name, as image stores list it: ``busybox`` is ``docker.io/library/busybox:latest``.

    Text that is not an image name, such as an image ID, is returned unchanged.
    """
    if text.startswith("sha256:") and _valid_digest(text):
        return text
    try:
        name = parse_image_name(text)
    except ValueError:
        return text
    if name.digest:
        return f"{name.repository}@{name.digest}"
    return f"{name.repository}:{name.tag or DEFAULT_TAG}"


def default_pull_policy(name: ImageName) -> str:
    """Return the default pull policy of a container."""
    return "Always" if name.tag == DEFAULT_TAG or not (name.tag or name.digest) else "IfNotPresent"


def _split_domain(text: str) -> tuple[str, str]:
    """Return host and path; the first part is a host if it has a dot, colon or capital, or is ``localhost``."""
    first, slash, rest = text.partition("/")
    if not slash or not (set(".:") & set(first) or first == "localhost" or first.lower() != first):
        first, rest = DEFAULT_DOMAIN, text
    if first == "index.docker.io":
        first = DEFAULT_DOMAIN
    if first == DEFAULT_DOMAIN and "/" not in rest:
        rest = f"{_OFFICIAL}/{rest}"
    return first, rest


def _valid_digest(digest: str) -> bool:
    if not _DIGEST.fullmatch(digest):
        return False
    algorithm, _, value = digest.partition(":")
    length = {"sha256": 64, "sha384": 96, "sha512": 128}.get(algorithm)
    return length is None or (len(value) == length and value.lower() == value)
