"""The pull policy of images. No I/O.

Not shared with the agent, whose parser of image names rejects a few names that kube-apiserver accepts.
"""

from __future__ import annotations

import re

from nodeagent.base.text_cache import text_cache

_COMPONENT = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_domain = re.compile(rf"(?:{_COMPONENT}(?:\.{_COMPONENT})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?")
_path = re.compile(r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*")
_identifier = re.compile(r"[a-f0-9]{64}")
_DIGEST_DIGITS = {"sha256": 64, "sha384": 96, "sha512": 128}
_digits = re.compile(r"[a-f0-9]+")
_NAME_LIMIT = 255


@text_cache(4096)
def image_pull_policy(image: str) -> str:
    """Return the policy for *image*: one with tag ``latest``, or with neither tag nor digest, is always pulled."""
    named, at, digest = image.partition("@")
    head, slash, last = named.rpartition("/")
    last, colon, tag = last.partition(":")
    if not colon and at:
        return "IfNotPresent"
    if (tag if colon else "latest") != "latest":
        return "IfNotPresent"
    valid = _is_name(f"{head}{slash}{last}") and (not at or _is_digest(digest))
    return "Always" if valid and not _identifier.fullmatch(image) else "IfNotPresent"


def _is_name(name: str) -> bool:
    """Return whether *name* is a valid name of a repository, with or without a registry."""
    head, slash, rest = name.partition("/")
    if slash and (any(character in head for character in ".:") or head == "localhost" or head.lower() != head):
        valid_domain = bool(_domain.fullmatch(head))
        parts = rest.split("/") if valid_domain else name.split("/")
        full = name
    else:
        parts = name.split("/")
        full = f"docker.io/{name}" if slash else f"docker.io/library/{name}"
    return len(full) <= _NAME_LIMIT and len(name) <= _NAME_LIMIT and all(map(_path.fullmatch, parts))


def _is_digest(digest: str) -> bool:
    algorithm, _, text = digest.partition(":")
    return len(text) == _DIGEST_DIGITS.get(algorithm) and bool(_digits.fullmatch(text))
