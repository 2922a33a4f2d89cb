"""CustomResourceDefinitions in version v1beta1, in which kube-apiserver stores them. No I/O."""

from __future__ import annotations

from typing import Any

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from nodeagent.base.identity import Identity

_OF_VERSIONS = {
    "validation": "schema",
    "subresources": "subresources",
    "additionalPrinterColumns": "additionalPrinterColumns",
    "selectableFields": "selectableFields",
}
"""Fields for all versions → the field of each version."""
_COLUMNS = "additionalPrinterColumns"


def as_v1(definition: Object, identity: Identity) -> Object:
    """Return *definition* in version v1, with the defaults of v1beta1."""
    spec = {**(definition.get("spec") or {})}
    only = spec.pop("version", "")
    common = {name: value for old, name in _OF_VERSIONS.items() if (value := spec.pop(old, None)) is not None}
    versions = spec.get("versions") or [{"name": only, "served": True, "storage": True}]
    spec["versions"] = [_version({**objects.clone(common), **version}) for version in versions]
    if spec.get("conversion"):
        spec["conversion"] = _conversion(spec["conversion"])
    spec.setdefault("preserveUnknownFields", True)
    if not spec["preserveUnknownFields"]:
        del spec["preserveUnknownFields"]
    return {**definition, "apiVersion": f"{identity.group('apiextensions')}/v1", "spec": spec}


def _version(version: Object) -> Object:
    if version.get(_COLUMNS):
        version[_COLUMNS] = [_column(column) for column in version[_COLUMNS]]
    return version


def _column(column: Object) -> Object:
    return {("jsonPath" if name == "JSONPath" else name): value for name, value in column.items()}


def _conversion(conversion: Object) -> Object:
    found: Object = {"strategy": conversion.get("strategy") or "None"}
    webhook: dict[str, Any] = {}
    if conversion.get("webhookClientConfig") is not None:
        webhook["clientConfig"] = conversion["webhookClientConfig"]
    if conversion.get("conversionReviewVersions"):
        webhook["conversionReviewVersions"] = conversion["conversionReviewVersions"]
    return {**found, "webhook": webhook} if webhook else found
