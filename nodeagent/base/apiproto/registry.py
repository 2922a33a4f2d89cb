"""Registry of the kinds that have a protobuf form, and their definition files."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, NamedTuple

from nodeagent.base import identity
from nodeagent.base.apiproto._proto.kinds import KINDS

_DEFINITIONS = "nodeagent.base.apiproto._proto"
_added: dict[tuple[str, str], Location] = {}


class Location(NamedTuple):
    """Module and name of the message of a kind."""

    module: str
    message: str


def locate(api_version: str, kind: str, api_domain: str | None = None) -> Location | None:
    """Return the definition of *kind* of *api_version*, or ``None`` if it has no protobuf form.

    Group names have the domain *api_domain*, by default that of :mod:`nodeagent.base.identity`: with
    ``--api-domain=example.com``, ``events.example.com/v1`` is supported and ``events.k8s.io/v1`` is not.
    """
    if kind in _SHARED:  # Such as DeleteOptions: part of every group version.
        return Location(f"{_DEFINITIONS}.meta_v1_pb2", kind)
    if (added := _added.get((api_version, kind))) is not None:
        return added
    name, _, version = api_version.rpartition("/")
    group = _group_of(name, identity.current().api_domain if api_domain is None else api_domain)
    if group is None or kind not in KINDS.get(f"{group}_{version}", ()):
        return None
    return Location(f"{_DEFINITIONS}.{group}_{version}_pb2", kind)


def add_kind(api_version: str, kind: str, message: type[Any]) -> None:
    """Register *message*, a generated class, as the definition of *kind*; call it before the kind is used."""
    _added[api_version, kind] = Location(message.__module__, message.__name__)


def _group_of(name: str, api_domain: str) -> str | None:
    """Return the definition group of the API group *name* in *api_domain*."""
    if name in _UNQUALIFIED:
        return _UNQUALIFIED[name]
    suffix = f".{api_domain}"
    return _QUALIFIED.get(name.removesuffix(suffix)) if name.endswith(suffix) else None


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
_UNQUALIFIED = MappingProxyType({"": "core"} | {group: group for group in ("apps", "autoscaling", "batch", "policy")})
_SPECIAL = {
    "flowcontrol.apiserver": "flowcontrol",
    "internal.apiserver": "apiserverinternal",
    "rbac.authorization": "rbac",
}
_GROUPS = frozenset(file.partition("_")[0] for file in KINDS)
_QUALIFIED = MappingProxyType(
    {group: group for group in _GROUPS.difference(_UNQUALIFIED.values(), _SPECIAL.values())} | _SPECIAL
)
