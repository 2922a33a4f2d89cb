"""Resource claims that a pod refers to. No I/O."""

from __future__ import annotations

from collections.abc import Iterator

from apiserver_stub.apimachinery.objects import Object, dig
from nodeagent.base.structs import Struct

MAX_CONSUMERS = 256


class PodClaim(Struct, frozen=True):
    """An entry of ``spec.resourceClaims`` of a pod."""

    name: str
    """Name in the pod."""
    claim: str | None
    """Name of the claim; ``None`` until it is created, empty if the pod does not need one."""
    template: str = ""
    """Name of the template that it is created from; the pod owns the claim."""


def claims_of(pod: Object) -> Iterator[PodClaim]:
    """Yield the resource claims of *pod*."""
    statuses = dig(pod, ("status", "resourceClaimStatuses")) or ()
    created = {item.get("name"): item.get("resourceClaimName") or "" for item in statuses}
    for entry in dig(pod, ("spec", "resourceClaims")) or ():
        source = entry.get("source") or entry  # Releases before 1.31 nest the reference in "source".
        name = entry.get("name") or ""
        if template := source.get("resourceClaimTemplateName"):
            yield PodClaim(name, created.get(name), template)
        else:
            yield PodClaim(name, source.get("resourceClaimName") or "")


def claim_names(pod: Object) -> frozenset[str]:
    """Return the names of the existing claims of *pod*, that of its extended resources included."""
    names = {item.claim for item in claims_of(pod) if item.claim}
    if extended := dig(pod, ("status", "extendedResourceClaimStatus", "resourceClaimName")):
        names.add(extended)
    return frozenset(names)


def is_owned_by(claim: Object, uid: str) -> bool:
    """Return whether the pod *uid* is the controller of *claim*."""
    owners = claim["metadata"].get("ownerReferences") or ()
    return any(owner.get("controller") and owner.get("uid") == uid for owner in owners)


def is_reserved_for(claim: Object, uid: str) -> bool:
    """Return whether *claim* is reserved for the pod *uid*."""
    return any(item.get("uid") == uid for item in dig(claim, ("status", "reservedFor")) or ())


def can_be_reserved(claim: Object) -> bool:
    return len(dig(claim, ("status", "reservedFor")) or ()) < MAX_CONSUMERS


def consumer(pod: Object) -> Object:
    """Return the entry of ``status.reservedFor`` for *pod*."""
    metadata = pod["metadata"]
    return {"resource": "pods", "name": metadata["name"], "uid": metadata["uid"]}
