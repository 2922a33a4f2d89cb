"""Claims as read from the API server, and the checks before they are prepared."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from nodeagent.base.structs import Struct
from nodeagent.contracts.api import Api, Resource
from nodeagent.contracts.claims import ClaimReference
from nodeagent.errors import ApiError, ApiNotFound, ClaimError
from nodeagent.model.pod import Pod
from nodeagent_plugins.claims.pod_claims import PodClaim

_VERSIONS = ("v1", "v1beta2", "v1beta1")
_NO_RESOURCE = "could not find the requested resource"

T = TypeVar("T")


class ResourceApi:
    """Requests of API group ``resource`` in the latest version that the server has."""

    def __init__(self, api: Api) -> None:
        self._api, self._known = api, 0

    async def claim(self, namespace: str, name: str) -> dict[str, Any]:
        """Return a claim; the fields that the agent needs are the same in all versions.

        :raises ApiError: it cannot be read.
        """

        def read(version: str) -> Awaitable[dict[str, Any]]:
            resource = Resource("resource", version, "resourceclaims", "ResourceClaim")
            return self._api.get(resource, name, namespace, into=dict)

        return await self._call(read)

    async def drivers_with_slices(self, node: str) -> set[str]:
        """Return the drivers that have resource slices for *node*.

        :raises ApiError: they cannot be listed.
        """

        def read(version: str) -> Awaitable[Any]:
            return self._api.list(_slices(version), into=dict, field_selector=f"spec.nodeName={node}")

        listing = await self._call(read)
        drivers = ((item.get("spec") or {}).get("driver") for item in listing.items)
        return {driver for driver in drivers if isinstance(driver, str) and driver}

    async def delete_slices(self, node: str, driver: str) -> None:
        """Delete the resource slices of *driver* for *node*.

        :raises ApiError: they cannot be deleted.
        """

        def delete(version: str) -> Awaitable[None]:
            selector = f"spec.driver={driver},spec.nodeName={node}"
            return self._api.delete_collection(_slices(version), field_selector=selector)

        await self._call(delete)

    async def _call(self, request: Callable[[str], Awaitable[T]]) -> T:
        for index in range(self._known, len(_VERSIONS)):
            try:
                result = await request(_VERSIONS[index])
            except ApiNotFound as error:
                if _NO_RESOURCE not in str(error) or index == len(_VERSIONS) - 1:
                    raise
            else:
                self._known = index
                return result
        self._known = 0  # The server may have been downgraded and upgraded since.
        raise ApiError(f"the API server has none of the versions {', '.join(_VERSIONS)} of group resource", code=404)


class AllocatedClaim(Struct, frozen=True):
    """A claim that a pod may use."""

    reference: ClaimReference
    devices: tuple[tuple[str, str, str], ...]
    """Driver, pool and name of its devices."""

    @property
    def drivers(self) -> tuple[str, ...]:
        """The drivers of its devices, in the order of their first device."""
        return tuple(dict.fromkeys(driver for driver, _, _ in self.devices))


async def read_claim(api: ResourceApi, pod: Pod, claim: PodClaim) -> AllocatedClaim:
    """Return a claim of *pod*.

    :raises ClaimError: it cannot be read, or *pod* must not use it.
    """
    try:
        found = await api.claim(pod.namespace, claim.claim)
    except ApiError as error:
        raise ClaimError(f"fetch ResourceClaim {claim.claim}: {error}") from error
    return check_claim(found, pod, claim)


def check_claim(found: dict[str, Any], pod: Pod, claim: PodClaim) -> AllocatedClaim:
    """Return the claim *found* if *pod* may use it.

    :raises ClaimError: it may not.
    """
    metadata, status = found.get("metadata") or {}, found.get("status") or {}
    uid = str(metadata.get("uid") or "")
    if claim.is_owned:
        owners = metadata.get("ownerReferences") or ()
        if not any(owner.get("controller") and owner.get("uid") == pod.uid for owner in owners):
            claim_name, pod_name = f"{pod.namespace}/{claim.claim}", f"{pod.namespace}/{pod.name}"
            raise ClaimError(f"ResourceClaim {claim_name} was not created for Pod {pod_name} (Pod is not owner)")
    if not any(consumer.get("uid") == pod.uid for consumer in status.get("reservedFor") or ()):
        raise ClaimError(f"pod {pod.name} ({pod.uid}) is not allowed to use ResourceClaim {claim.claim} ({uid})")
    allocation = status.get("allocation")
    if allocation is None:
        raise ClaimError(f"ResourceClaim {claim.claim}: not allocated")
    results = (allocation.get("devices") or {}).get("results") or ()
    names = ("driver", "pool", "device")
    devices = ((str(result.get(name) or "") for name in names) for result in results)
    return AllocatedClaim(ClaimReference(pod.namespace, claim.claim, uid), tuple((d, p, n) for d, p, n in devices))


def _slices(version: str) -> Resource:
    return Resource("resource", version, "resourceslices", "ResourceSlice", namespaced=False)
