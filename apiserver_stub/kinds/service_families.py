"""Default IP families of services, from those of the cluster. No I/O."""

from __future__ import annotations

from collections.abc import Sequence

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, invalid_value
from apiserver_stub.kinds.service_fields import needs_cluster_ip
from apiserver_stub.validation.addresses import family, parse_address
from apiserver_stub.validation.cluster_ips import HEADLESS, validate_cluster_ips

_POLICY = "spec.ipFamilyPolicy"
_OTHER = {"IPv4": "IPv6", "IPv6": "IPv4"}


def keeps_prefer_dual_stack(spec: Object, before: Object | None) -> bool:
    """Return whether an update does not change the families of a PreferDualStack service; those of the cluster may."""
    return (
        before is not None
        and needs_cluster_ip(spec)
        and spec.get("ipFamilyPolicy") == before.get("ipFamilyPolicy") == "PreferDualStack"
        and all((spec.get(name) or []) == (before.get(name) or []) for name in ("clusterIPs", "ipFamilies"))
        and spec.get("type") == before.get("type")
    )


def settle_families(spec: Object, before: Object | None, served: Sequence[str]) -> list[Cause]:
    """Set the IP families and the family policy of *spec*, and return their validation errors.

    :param before: the stored spec, ``None`` for a new service.
    :param served: the IP families of the cluster, the primary one first.
    """
    if not needs_cluster_ip(spec) or keeps_prefer_dual_stack(spec, before):
        return []
    anywhere = spec.get("clusterIP") == HEADLESS and not spec.get("selector")
    if "ipFamilyPolicy" not in spec:
        inherited = before.get("ipFamilyPolicy") if before is not None else None
        spec["ipFamilyPolicy"] = inherited or ("RequireDualStack" if anywhere else "SingleStack")
    if causes := validate_cluster_ips(spec):
        return causes
    policy = spec["ipFamilyPolicy"]
    causes = _release(spec, before, policy) if before is not None else []
    if policy == "SingleStack":
        for name, what in (("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families")):
            if len(spec.get(name) or ()) == 2:
                detail = f"must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are specified"
                causes.append(invalid_value(_POLICY, policy, detail))
    causes += _infer(spec, served)
    if causes:
        return causes
    if not anywhere:
        if policy == "RequireDualStack" and len(served) < 2:
            causes.append(invalid_value(_POLICY, policy, "this cluster is not configured for dual-stack services"))
        causes += [
            invalid_value(f"spec.ipFamilies[{index}]", name, "not configured on this cluster")
            for index, name in enumerate(spec.get("ipFamilies") or ())
            if name not in served
        ]
        if causes:
            return causes
    families = list(spec.get("ipFamilies") or served[:1])
    if policy != "SingleStack" and len(families) == 1 and (anywhere or len(served) == 2):
        families.append(_OTHER[families[0]])
    spec["ipFamilies"] = families
    return []


def _release(spec: Object, before: Object, policy: str) -> list[Cause]:
    """Drop the secondary address and family that an update to SingleStack still contains."""
    causes = []
    for name, what in (("clusterIPs", "cluster IP"), ("ipFamilies", "IP family")):
        new, old = spec.get(name) or [], before.get(name) or []
        if policy == "SingleStack":
            if new == old and len(new) > 1:
                spec[name] = new[:1]
        elif new and len(new) < len(old):
            causes.append(invalid_value(_POLICY, policy, f"must be 'SingleStack' to release the secondary {what}"))
    return causes


def _infer(spec: Object, served: Sequence[str]) -> list[Cause]:
    """Add the families of the cluster IPs without one."""
    addresses, families = spec.get("clusterIPs") or [], list(spec.get("ipFamilies") or ())
    causes = []
    for index, text in enumerate(addresses):
        address = parse_address(text)
        if address is None:
            break
        if index >= len(families):
            if (name := family(address)) in served:
                families.append(name)
            else:
                detail = f"{name} is not configured on this cluster"
                causes.append(invalid_value(f"spec.clusterIPs[{index}]", addresses, detail))
    if families:
        spec["ipFamilies"] = families
    return causes
