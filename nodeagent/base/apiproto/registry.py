"""Registry of the kinds that have a protobuf form, and their definition files."""

from __future__ import annotations

from types import MappingProxyType
from typing import NamedTuple

from nodeagent.base import identity
from nodeagent.base.apiproto._proto.kinds import KINDS


class Location(NamedTuple):
    """Definition of the message of a kind."""

    file: str
    """Stem of the definition file: ``core_v1`` for ``core_v1.proto``."""
    message: str


def locate(api_version: str, kind: str) -> Location | None:
    """Return the definition of *kind* of *api_version*, or ``None`` if it has no protobuf form.

    Group names follow :mod:`nodeagent.base.identity`: with ``--api-domain=example.com``, ``events.example.com/v1`` is
    supported and ``events.k8s.io/v1`` is not.
    """
    if kind in _SHARED:  # Such as DeleteOptions: part of every group version.
        return Location("meta_v1", kind)
    name, _, version = api_version.rpartition("/")
    group = _group_of(name)
    if group is None or kind not in KINDS.get(f"{group}_{version}", ()):
        return None
    return Location(f"{group}_{version}", kind)


def _group_of(name: str) -> str | None:
    """Return the definition group of the API group *name*."""
    if name in _UNQUALIFIED:
        return _UNQUALIFIED[name]
    head, domain_found, _ = name.rpartition("." + identity.current().api_domain)
    return _QUALIFIED.get(head) if domain_found and head + "." + identity.current().api_domain == name else None


_SHARED = frozenset(
    {
        "APIGroup",
        "APIGroupList",
        "APIResourceList",
        "APIVersions",
        "DeleteOptions",
        "List",
        "PartialObjectMetadata",
        "PartialObjectMetadataList",
        "Status",
        "WatchEvent",
    }
)
_UNQUALIFIED = MappingProxyType({"": "core", "policy": "policy"})
_GROUPS = frozenset(file.partition("_")[0] for file in KINDS)
_QUALIFIED = MappingProxyType(
    {group: group for group in _GROUPS - {"core", "policy", "rbac"}} | {"rbac.authorization": "rbac"}
)
