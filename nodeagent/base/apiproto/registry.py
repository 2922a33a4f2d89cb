"""Which kinds can travel as protobuf, and in which definitions each is found."""

from __future__ import annotations

from types import MappingProxyType
from typing import NamedTuple

from nodeagent.base import identity


class Location(NamedTuple):
    """Where the message of a kind is defined."""

    group: str
    """Stem of the definition file: ``core`` for ``core_v1.proto``."""
    message: str


def locate(api_version: str, kind: str) -> Location | None:
    """Return where *kind* of *api_version* is defined, or ``None`` when it has no protobuf form here.

    Group names follow :mod:`nodeagent.base.identity`: with ``--api-domain=example.com`` it is
    ``events.example.com/v1`` that is known, and ``events.k8s.io/v1`` that is not.
    """
    if kind in _SHARED:  # such as DeleteOptions: every group version may carry them
        return Location("meta", kind)
    group = _group_of(api_version)
    return Location(group, kind) if group is not None and kind in KINDS.get(group, ()) else None


def _group_of(api_version: str) -> str | None:
    """Return the definition group of *api_version*; only the versions ``v1`` are known."""
    group, _, version = api_version.rpartition("/")
    if version != "v1":
        return None
    if group in _UNQUALIFIED:
        return _UNQUALIFIED[group]
    head, domain_found, _ = group.rpartition("." + identity.current().api_domain)
    return _QUALIFIED.get(head) if domain_found and head + "." + identity.current().api_domain == group else None


def _with_lists(*kinds: str) -> frozenset[str]:
    return frozenset(kinds) | {kind + "List" for kind in kinds}


KINDS = MappingProxyType(
    {
        "core": frozenset({"Binding"})
        | _with_lists(
            "ConfigMap",
            "Endpoints",
            "Event",
            "LimitRange",
            "Namespace",
            "Node",
            "PersistentVolume",
            "PersistentVolumeClaim",
            "Pod",
            "PodTemplate",
            "ResourceQuota",
            "Secret",
            "Service",
            "ServiceAccount",
        ),
        "events": _with_lists("Event"),
        "coordination": _with_lists("Lease"),
        "authentication": frozenset({"SelfSubjectReview", "TokenRequest", "TokenReview"}),
        "authorization": frozenset(
            {"LocalSubjectAccessReview", "SelfSubjectAccessReview", "SelfSubjectRulesReview", "SubjectAccessReview"}
        ),
        "certificates": _with_lists("CertificateSigningRequest"),
        "rbac": _with_lists("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"),
        "scheduling": _with_lists("PriorityClass"),
        "node": _with_lists("RuntimeClass"),
        "storage": _with_lists("CSIDriver", "CSINode", "CSIStorageCapacity", "StorageClass", "VolumeAttachment"),
        "admissionregistration": _with_lists("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"),
        "policy": frozenset({"Eviction"}) | _with_lists("PodDisruptionBudget"),
        "discovery": _with_lists("EndpointSlice"),
    }
)
"""Kinds by definition group."""

_SHARED = frozenset(
    {"DeleteOptions", "List", "PartialObjectMetadata", "PartialObjectMetadataList", "Status", "WatchEvent"}
)
_UNQUALIFIED = MappingProxyType({"": "core", "policy": "policy"})
_QUALIFIED = MappingProxyType(
    {group: group for group in KINDS if group not in ("core", "policy", "rbac")} | {"rbac.authorization": "rbac"}
)
