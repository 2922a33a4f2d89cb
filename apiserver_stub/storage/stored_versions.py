"""API versions that are read, but not served: those in which kube-apiserver stores objects of some kinds. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Protocol

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.storage import beta_definitions, beta_endpoint_slices
from nodeagent.base.identity import Identity


class _Conversion(Protocol):
    def __call__(self, obj: Object, /, identity: Identity) -> Object: ...


def _in_version(version: str) -> _Conversion:
    """Return the conversion to *version*, which has the same fields."""

    def convert(obj: Object, identity: Identity) -> Object:
        group, _, _ = obj["apiVersion"].rpartition("/")
        return {**obj, "apiVersion": f"{group}/{version}"}

    return convert


_CONVERSIONS: Mapping[tuple[str, str, str], _Conversion] = {
    ("admissionregistration", "v1beta1", "MutatingAdmissionPolicy"): _in_version("v1"),
    ("admissionregistration", "v1beta1", "MutatingAdmissionPolicyBinding"): _in_version("v1"),
    ("apiextensions", "v1beta1", "CustomResourceDefinition"): beta_definitions.as_v1,
    ("discovery", "v1beta1", "EndpointSlice"): beta_endpoint_slices.as_v1,
    ("resource", "v1alpha3", "DeviceTaintRule"): _in_version("v1beta2"),
}
"""Group, version and kind → conversion to a served version."""


@lru_cache(maxsize=4)
def conversions(identity: Identity) -> Mapping[tuple[str, str], Callable[[Object], Object]]:
    """Return the conversions to served versions by kind and API version."""
    return {
        (kind, f"{identity.group(group)}/{version}"): partial(convert, identity=identity)
        for (group, version, kind), convert in _CONVERSIONS.items()
    }
