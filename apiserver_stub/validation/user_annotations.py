"""Validation of the annotations that pods pass to the signer of their certificates."""

from __future__ import annotations

from collections.abc import Mapping

from apiserver_stub.apimachinery.status import Cause, invalid_value, required, too_long
from nodeagent.base.names import qualified_name_problems

_LIMIT_BYTES = 256 << 10


def validate_user_annotations(annotations: Mapping[str, str] | None, field: str) -> list[Cause]:
    """Return the errors in *annotations*, whose keys must have a domain."""
    causes: list[Cause] = []
    for key in annotations or ():
        causes += _validate_key(key.lower(), field)
    if sum(len(text.encode()) for item in (annotations or {}).items() for text in item) > _LIMIT_BYTES:
        causes.append(too_long(field, _LIMIT_BYTES))
    return causes


def _validate_key(key: str, field: str) -> list[Cause]:
    if not key:
        return [required(field)]
    if causes := [invalid_value(field, key, problem) for problem in qualified_name_problems(key)]:
        return causes
    if key.count("/") != 1:
        return [invalid_value(field, key, 'must be a domain-prefixed key (such as "acme.io/foo")')]
    return []
