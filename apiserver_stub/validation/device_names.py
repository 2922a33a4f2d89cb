"""Validation of the names in the kinds of API group ``resource``: drivers, pools, requests and attributes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import (
    Cause,
    duplicate,
    invalid_each,
    invalid_value,
    required,
    too_long,
    too_many,
)
from apiserver_stub.validation.volume_sources import validate_csi_driver_name
from nodeagent.base.names import label_problems, subdomain_problems
from nodeagent.base.release import NEWEST

MAX_REQUESTS = 32
"""Limit for the requests of a claim, and for lists of their names."""
_POOL_LIMIT_BYTES, _ID_LIMIT_BYTES = 253, 32
_IDENTIFIER = r"[A-Za-z_][A-Za-z0-9_]*"
_identifier = re.compile(_IDENTIFIER)
_IDENTIFIER_RULE = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters "
    f"or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '{_IDENTIFIER}')"
)
_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_UID_RULE = (
    "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal "
    "characters"
)
_REFERENCE_RULE = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)

RequestNames = Mapping[str, frozenset[str]]
"""Names of the subrequests by request."""


def validate_driver_name(name: str, field: str) -> list[Cause]:
    return validate_csi_driver_name(name, field, NEWEST)


def validate_pool_name(name: str, field: str) -> list[Cause]:
    if not name:
        return [required(field)]
    causes = [too_long(field, _POOL_LIMIT_BYTES)] if len(name.encode()) > _POOL_LIMIT_BYTES else []
    for part in name.split("/"):
        causes += invalid_each(field, part, subdomain_problems(part))
    return causes


def validate_label(name: str, field: str) -> list[Cause]:
    """Return the errors in a name that must be a DNS label, such as that of a device or request."""
    return invalid_each(field, name, label_problems(name))


def validate_class_name(name: str, field: str) -> list[Cause]:
    return invalid_each(field, name, subdomain_problems(name)) if name else [required(field)]


def validate_uid(uid: str, field: str) -> list[Cause]:
    return [] if _UID.fullmatch(uid) else [invalid_value(field, uid, _UID_RULE)]


def validate_qualified_name(name: str, field: str) -> list[Cause]:
    """Return the errors in the name of an attribute or a capacity, with or without domain."""
    domain, slash, identifier = name.partition("/")
    if not slash:
        return _validate_identifier(name, field)
    if "/" in identifier:
        return []  # Upstream accepts names with several slashes.
    causes = (
        validate_driver_name(domain, field) if domain else [invalid_value(field, "", "the domain must not be empty")]
    )
    if not identifier:
        return [*causes, invalid_value(field, "", "the name must not be empty")]
    return causes + _validate_identifier(identifier, field)


def validate_fully_qualified_name(name: str, field: str) -> list[Cause]:
    causes = validate_qualified_name(name, field)
    if "/" not in name:
        detail = "a fully qualified name must be a domain and a name separated by a slash"
        causes.append(invalid_value(field, name, detail))
    return causes


def request_names(devices: Object) -> RequestNames:
    """Return the names of the requests in the specification of devices, which has the structure of ``v1``."""
    return {
        request.get("name") or "": frozenset(sub.get("name") or "" for sub in request.get("firstAvailable") or ())
        for request in devices.get("requests") or ()
    }


def validate_request_references(names: Sequence[str], field: str, requests: RequestNames) -> list[Cause]:
    """Return the errors in a list of names of requests or subrequests."""
    return validate_set(names, MAX_REQUESTS, lambda name, path: validate_request_reference(name, path, requests), field)


def validate_request_reference(name: str, field: str, requests: RequestNames) -> list[Cause]:
    parts = name.split("/")
    if len(parts) > 2:
        return [invalid_value(field, name, _REFERENCE_RULE)]
    causes = [cause for part in parts for cause in validate_label(part, field)]
    if parts[0] not in requests or (len(parts) == 2 and parts[1] not in requests[parts[0]]):
        causes.append(invalid_value(field, name, _REFERENCE_RULE))
    return causes


def validate_list(
    items: Sequence[Any] | None, limit: int, validate: Callable[[Any, str], Iterable[Cause]], field: str
) -> list[Cause]:
    """Return the errors in the items of a list; those of a list with too many items are not validated."""
    if items and len(items) > limit:
        return [too_many(field, len(items), limit)]
    return [cause for index, item in enumerate(items or ()) for cause in validate(item, f"{field}[{index}]")]


def validate_set(
    items: Sequence[Any] | None,
    limit: int,
    validate: Callable[[Any, str], Iterable[Cause]],
    field: str,
    key: Callable[[Any], Any] = lambda item: item,
) -> list[Cause]:
    """Return the errors in a list whose items have distinct keys."""
    if items and len(items) > limit:
        return [too_many(field, len(items), limit)]
    return validate_list(items, limit, validate, field) + list(_duplicates(items or (), field, key))


def _duplicates(items: Sequence[Any], field: str, key: Callable[[Any], Any]) -> Iterator[Cause]:
    seen = set()
    for index, item in enumerate(items):
        if (found := key(item)) in seen:
            yield duplicate(f"{field}[{index}]", found)
        seen.add(found)


def _validate_identifier(name: str, field: str) -> list[Cause]:
    causes = [too_long(field, _ID_LIMIT_BYTES)] if len(name.encode()) > _ID_LIMIT_BYTES else []
    return causes if _identifier.fullmatch(name) else [*causes, invalid_value(field, name, _IDENTIFIER_RULE)]
