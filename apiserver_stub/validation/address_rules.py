"""Rules for addresses in fields that once accepted ambiguous notations, by release and feature gate. No I/O."""

from __future__ import annotations

from collections.abc import Collection
from ipaddress import IPv6Address, ip_address, ip_interface
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery.status import Cause, invalid_value, quote
from apiserver_stub.validation import address_warnings
from apiserver_stub.validation.addresses import parse_address, parse_cidr, validate_legacy_address
from nodeagent.base.release import OLDEST, Release
from nodeagent.base.structs import Struct

if TYPE_CHECKING:
    from nodeagent.base.gates import FeatureGates

_REVISED = Release(1, 33)
"""First release with warnings for all these fields, and with errors for single CIDR blocks."""
_BLOCK_RULE = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"


class AddressRules(Struct, frozen=True):
    """Rules for IP addresses and CIDR blocks in fields that once accepted ambiguous notations."""

    release: Release = OLDEST
    is_strict: bool = False
    """Ambiguous notations are errors (spec: gate.StrictIPCIDRValidation)."""

    @classmethod
    def of(cls, gates: FeatureGates, release: Release) -> AddressRules:
        """Return the rules of *release*."""
        return cls(release, gates.enabled("StrictIPCIDRValidation"))

    @property
    def is_revised(self) -> bool:
        """True for releases that warn about all these fields and report each invalid block."""
        return self.release >= _REVISED

    def validate(self, text: str, field: str, stored: Collection[str] = ()) -> list[Cause]:
        """Return the error in an IP address; those in *stored* are accepted in any notation from 1.33 on."""
        return validate_legacy_address(text, field, is_strict=self.is_strict, stored=stored if self.is_revised else ())

    def validate_canonical(self, text: str, field: str) -> list[Cause]:
        """Return the error in an IP address of a field that accepts only the canonical notation."""
        if causes := validate_legacy_address(text, field, is_strict=True):
            return causes
        canonical = str(ip_address(text))
        return (
            [] if text == canonical else [invalid_value(field, text, f"must be in canonical form ({quote(canonical)})")]
        )

    def validate_block(self, text: str, field: str, stored: Collection[str] = ()) -> list[Cause]:
        """Return the error in a CIDR block; those in *stored* are accepted in any notation."""
        if text in stored:
            return []
        if parse_cidr(text) is None:
            return [invalid_value(field, text, _BLOCK_RULE)]
        if not self.is_strict:
            return []
        try:
            interface = ip_interface(text)
        except ValueError:
            return [invalid_value(field, text, "must not have leading 0s in IP or prefix length")]
        if not _has_plain_length(text):
            return [invalid_value(field, text, "must not have leading 0s in IP or prefix length")]
        if isinstance(interface.ip, IPv6Address) and interface.ip.ipv4_mapped is not None:
            return [invalid_value(field, text, "must not have an IPv4-mapped IPv6 address")]
        if interface.ip != interface.network.network_address:
            return [invalid_value(field, text, "must not have bits set beyond the prefix length")]
        return []

    def warnings(self, field: str, text: str) -> list[str]:
        """Return the warning about a valid IP address."""
        if not self.is_revised:
            return address_warnings.ip_warnings(field, text)
        address = parse_address(text)
        if address is None:
            return []
        try:
            exact = ip_address(text)
        except ValueError:
            exact = None
        if exact is None or (isinstance(exact, IPv6Address) and exact.ipv4_mapped is not None):
            return [f"{field}: non-standard IP address {quote(text)} is invalid: use {quote(str(address))}"]
        if isinstance(exact, IPv6Address) and str(exact) != text:
            return [f"{field}: IPv6 address {quote(text)} should be in RFC 5952 canonical format ({quote(str(exact))})"]
        return []

    def block_warnings(self, field: str, text: str) -> list[str]:
        """Return the warnings about a valid CIDR block."""
        if not self.is_revised:
            return address_warnings.cidr_warnings(field, text)
        block, host = parse_cidr(text), text.partition("/")[0]
        address = parse_address(host)
        if block is None or address is None:
            return []
        warnings = []
        mapped = getattr(block.network_address, "ipv4_mapped", None)
        start, length = block.network_address, block.prefixlen
        if mapped is not None:
            start, length = mapped, max(block.prefixlen - 96, 0)
        canonical = f"{start}/{length}"
        if address != start:
            single = f"{address}/{address.max_prefixlen}"
            texts = f"(should be {quote(canonical)} or {quote(single)}?)"
            warnings.append(f"{field}: CIDR value {quote(text)} is ambiguous in this context {texts}")
        try:
            exact = ip_interface(text) if _has_plain_length(text) else None
        except ValueError:
            exact = None
        if exact is None or mapped is not None:
            warnings.append(f"{field}: non-standard CIDR value {quote(text)} is invalid: use {quote(canonical)}")
        if not warnings and exact is not None and exact.version == 6 and str(exact) != text:
            shown = f"should be in RFC 5952 canonical format ({quote(str(exact))})"
            warnings.append(f"{field}: IPv6 CIDR value {quote(text)} {shown}")
        return warnings


EARLY_RULES = AddressRules()
"""Rules of the oldest release."""


def _has_plain_length(text: str) -> bool:
    length = text.rpartition("/")[2]
    return length == "0" or not length.startswith("0")
