"""Validation of the cluster addresses and address families of services."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, duplicate, invalid_value, not_supported, quote, required
from apiserver_stub.validation.address_rules import EARLY_RULES, AddressRules
from apiserver_stub.validation.addresses import family, parse_address

HEADLESS = "None"
_FAMILIES = ("IPv4", "IPv6")
_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
_ADDRESSES, _FAMILY_FIELD, _POLICY = "spec.clusterIPs", "spec.ipFamilies", "spec.ipFamilyPolicy"
_CONSTANT = "may not change once set"


def is_headless(spec: Object) -> bool:
    """Return whether the service is headless: it has no cluster IP."""
    return bool(spec.get("clusterIPs") == [HEADLESS])


def validate_cluster_ips(spec: Object, rules: AddressRules = EARLY_RULES, stored: Collection[str] = ()) -> list[Cause]:
    """Return the errors in cluster addresses, families and their policy; services for external names have none.

    :param stored: the addresses of the stored service.
    """
    if spec.get("type") == "ExternalName":
        return []
    addresses, families = spec.get("clusterIPs") or [], spec.get("ipFamilies") or []
    causes = _validate_primary(spec.get("clusterIP") or "", addresses)
    for index, name in enumerate(families):
        if name not in _FAMILIES:
            causes.append(not_supported(f"{_FAMILY_FIELD}[{index}]", name, _FAMILIES))
        if name in families[:index]:
            causes.append(duplicate(f"{_FAMILY_FIELD}[{index}]", name))
    if "ipFamilyPolicy" in spec and spec["ipFamilyPolicy"] not in _POLICIES:
        causes.append(not_supported(_POLICY, spec["ipFamilyPolicy"], _POLICIES))
    invalid = _validate_each(addresses, rules, stored)
    causes += invalid
    if len(addresses) > 2:
        causes.append(invalid_value(_ADDRESSES, addresses, "may only hold up to 2 values"))
    if invalid:
        return causes
    if len(addresses) > 1 and {*map(_family_of, addresses)} != {*_FAMILIES}:
        causes.append(invalid_value(_ADDRESSES, addresses, "may specify no more than one IP for each IP family"))
    if not is_headless(spec):
        for index, (text, name) in enumerate(zip(addresses, families, strict=False)):
            if name in _FAMILIES and _family_of(text) != name:
                detail = f"expected an {name} value as indicated by `ipFamilies[{index}]`"
                causes.append(invalid_value(f"{_ADDRESSES}[{index}]", text, detail))
    return causes


def validate_cluster_ips_update(spec: Object, before: Object) -> list[Cause]:
    """Return the errors in changes of addresses and families; only secondary ones can be added and removed."""
    if "ExternalName" in (spec.get("type"), before.get("type")):
        return []
    causes = [] if is_headless(spec) and is_headless(before) else _validate_addresses_update(spec, before)
    return causes if is_headless(spec) or is_headless(before) else causes + _validate_families_update(spec, before)


def _validate_primary(primary: str, addresses: list[str]) -> list[Cause]:
    if primary and not addresses:
        return [required(_ADDRESSES)]
    if not addresses or (primary and addresses[0] == primary):
        return []
    detail = "first value must match `clusterIP`" if primary else "must be empty when `clusterIP` is not specified"
    return [invalid_value(_ADDRESSES, addresses, detail)]


def _validate_each(addresses: Sequence[str], rules: AddressRules, stored: Collection[str]) -> list[Cause]:
    causes: list[Cause] = []
    for index, text in enumerate(addresses):
        if index == 0 and text == HEADLESS:
            if len(addresses) > 1:
                causes.append(invalid_value(_ADDRESSES, addresses, "'None' must be the first and only value"))
        else:
            causes += rules.validate(text, f"{_ADDRESSES}[{index}]", stored)
    return causes


def _family_of(text: str) -> str:
    address = parse_address(text)
    return family(address) if address is not None else ""


def _validate_addresses_update(spec: Object, before: Object) -> list[Cause]:
    new, old = spec.get("clusterIPs") or [], before.get("clusterIPs") or []
    if len(new) == len(old):
        return [
            invalid_value(f"{_ADDRESSES}[{index}]", new, _CONSTANT)
            for index, (one, other) in enumerate(zip(new, old, strict=True))
            if one != other
        ]
    causes = []
    if not new:
        text = "Invalid value: []string(nil): primary clusterIP can not be unset"
        causes.append(Cause("FieldValueInvalid", text, f"{_ADDRESSES}[0]"))
    if new and old and new[0] != old[0]:
        causes.append(invalid_value(f"{_ADDRESSES}[0]", new, _CONSTANT))
    if len(new) == 1 < len(old):
        causes += _validate_release(spec, "clusterIP")
    return causes


def _validate_families_update(spec: Object, before: Object) -> list[Cause]:
    new, old = spec.get("ipFamilies") or [], before.get("ipFamilies") or []
    field = f"{_FAMILY_FIELD}[0]"
    if len(new) == len(old):
        shown = f"Invalid value: []core.IPFamily{{{', '.join(map(quote, new))}}}: {_CONSTANT}"
        return [Cause("FieldValueInvalid", shown, field) for one, other in zip(new, old, strict=True) if one != other]
    causes, addresses = [], spec.get("clusterIPs") or []
    if len(new) < len(old) and not addresses:
        shown = f"[]core.IPFamily{{{', '.join(map(quote, new))}}}" if new else "[]core.IPFamily(nil)"
        text = f"Invalid value: {shown}: primary ipFamily can not be unset"
        causes.append(Cause("FieldValueInvalid", text, field))
    if new and old and new[0] != old[0]:
        causes.append(invalid_value(field, addresses, _CONSTANT))
    if len(new) == 1 < len(old):
        causes += _validate_release(spec, "ipFamily")
    return causes


def _validate_release(spec: Object, what: str) -> list[Cause]:
    policy = spec.get("ipFamilyPolicy")
    if policy == "SingleStack":
        return []
    return [invalid_value(_POLICY, policy, f"must be set to 'SingleStack' when releasing the secondary {what}")]
