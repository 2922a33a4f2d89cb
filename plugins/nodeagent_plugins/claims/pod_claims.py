"""Resource claims that a pod and its containers refer to. No I/O."""

from __future__ import annotations

from collections.abc import Iterator

from nodeagent.base.structs import Struct
from nodeagent.errors import ClaimError
from nodeagent.model.pod import Container, Pod


class PodClaim(Struct, frozen=True):
    """A claim of a pod."""

    name: str
    """Name in the pod; empty for the claim of its extended resources."""
    claim: str
    """Name of the object."""
    is_owned: bool = False
    """True if the pod must be the controller of the object, because it was created from a template."""


class ClaimUse(Struct, frozen=True):
    """Use of a claim by a container."""

    name: str
    """Name in the pod; empty for the claim of its extended resources."""
    claim: str
    """Name of the object."""
    request: str
    """Name of the request whose devices are used; empty for all."""
    resource: str = ""
    """Extended resource that the claim provides; empty for a claim of the pod's specification."""


def claims_of(pod: Pod) -> list[PodClaim]:
    """Return the claims of *pod*, without those that it does not need.

    :raises ClaimError: a claim is not created yet, or its entry is invalid.
    """
    found = []
    for entry in pod.spec.resource_claims or ():
        claim = _resolve(pod, entry.name)
        if claim is not None:
            found.append(claim)
    extended = pod.status.extended_resource_claim_status
    if extended is not None and extended.resource_claim_name:
        found.append(PodClaim("", extended.resource_claim_name, is_owned=True))
    return found


def uses_of(pod: Pod, container: Container) -> Iterator[ClaimUse]:
    """Yield the claims that *container* uses.

    :raises ClaimError: a claim is not created yet, or its entry is invalid.
    """
    for use in (container.resources.claims if container.resources is not None else None) or ():
        claim = _resolve(pod, use.name)
        if claim is not None:
            yield ClaimUse(use.name, claim.claim, use.request)
    extended = pod.status.extended_resource_claim_status
    if extended is None:
        return
    requests = (container.resources.requests if container.resources is not None else None) or {}
    for mapping in extended.request_mappings or ():
        if mapping.container_name == container.name and mapping.resource_name in requests:
            yield ClaimUse("", extended.resource_claim_name, mapping.request_name, mapping.resource_name)


def _resolve(pod: Pod, name: str) -> PodClaim | None:
    """Return the claim that the pod calls *name*, ``None`` if the pod does not need it."""
    entry = next((entry for entry in pod.spec.resource_claims or () if entry.name == name), None)
    owner = f'pod "{pod.namespace}/{pod.name}"'
    if entry is None:
        raise ClaimError(f'{owner}: the container uses resource claim "{name}", which the pod does not have')
    if entry.claim_name:
        return PodClaim(name, entry.claim_name)
    if not entry.template_name:
        raise ClaimError(f'{owner}, spec.resourceClaim "{name}": none of the supported fields are set')
    statuses = pod.status.resource_claim_statuses or ()
    status = next((status for status in statuses if status.name == name), None)
    if status is None:
        raise ClaimError(f"{owner}: ResourceClaim not created yet")
    return PodClaim(name, status.resource_claim_name, is_owned=True) if status.resource_claim_name else None
