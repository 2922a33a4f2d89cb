"""Patterns of images that need no verification of pull credentials (spec of ``preloadedImagesVerificationAllowlist``).

A pattern is an image name without tag and digest, or a prefix that ends with ``/*``. Names are compared as they are
written: ``busybox`` and ``docker.io/library/busybox`` are different.
"""

from __future__ import annotations

from collections.abc import Iterable

from nodeagent.model.image_name import parse_image_name

_WILDCARD = "/*"


def without_tag(text: str) -> str:
    """Return an image name without tag and digest, and without a default registry.

    :raises ValueError: it is not an image name; the message is a predicate.
    """
    name = parse_image_name(text)
    return text.removesuffix(f"@{name.digest}").removesuffix(f":{name.tag}")


def pattern_problem(pattern: str) -> str:
    """Return the rule that *pattern* violates, or the empty string."""
    if pattern != pattern.strip():
        return "must not start or end with white space"
    if pattern.endswith(_WILDCARD):
        if pattern == _WILDCARD:
            return "must have a registry host before '/*'"
        return "must have '*' only in '/*' at the end" if "*" in pattern[:-1] else ""
    if not pattern:
        return "must not be empty"
    if "*" in pattern:
        return "must have '*' only in '/*' at the end"
    try:
        return "" if without_tag(pattern) == pattern else "must have neither tag nor digest"
    except ValueError as error:
        return f"is not an image name: it {error}"


def is_listed(image: str, patterns: Iterable[str]) -> bool:
    """Return whether a pattern matches *image*, a name as in a pod."""
    try:
        name = without_tag(image)
    except ValueError:
        name = image
    return any(
        name.startswith(pattern[:-1]) if pattern.endswith(_WILDCARD) else name == pattern for pattern in patterns
    )
