"""Volumes and claims: classes, protection while in use, growth, labels."""

from __future__ import annotations

from apiserver_stub.admission import AdmissionPlugin
from apiserver_stub.admission.reading import Reader, annotations_of, labels_of
from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.apimachinery.resource_lists import read
from apiserver_stub.verbs.admission import AdmissionRequest
from nodeagent.base import identity
from nodeagent.base.quantity import Quantity

_CLASSES = identity.current().group("storage") + "/storageclasses"
_LABEL_DOMAIN = identity.current().label_domain
_DEFAULT_CLASS = tuple(f"{prefix}.{_LABEL_DOMAIN}/is-default-class" for prefix in ("storageclass", "storageclass.beta"))
_OLD_CLASS = f"volume.beta.{_LABEL_DOMAIN}/storage-class"
PROTECTION = {
    "persistentvolumes": identity.current().label("pv-protection"),
    "persistentvolumeclaims": identity.current().label("pvc-protection"),
}
"""The finalizer by which an object waits until nobody uses it."""
_PROVISIONED_BY = f"pv.{_LABEL_DOMAIN}/provisioned-by"
_PLACES = (
    (f"topology.{_LABEL_DOMAIN}/zone", f"topology.{_LABEL_DOMAIN}/region"),
    (f"failure-domain.beta.{_LABEL_DOMAIN}/zone", f"failure-domain.beta.{_LABEL_DOMAIN}/region"),
)
_ZONES_BETWEEN = "__"
_CLOUDS = (
    ("gcePersistentDisk", "pdName", "GCE PD volume", "GCE cloud provider for PD"),
    ("azureDisk", "diskName", "AzureDisk volume", "Azure cloud provider for AzureDisk"),
    ("vsphereVolume", "volumePath", "vSphere Volume", "vSphere cloud provider"),
)


class DefaultStorageClass(AdmissionPlugin):
    """Gives claims without a class the default one; of several the newest (spec: admission.DefaultStorageClass)."""

    name = "DefaultStorageClass"
    resources = ("persistentvolumeclaims",)
    operations = ("CREATE",)

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    async def admit(self, call: AdmissionRequest) -> None:
        spec = call.obj["spec"] = call.obj.get("spec") or {}
        if spec.get("storageClassName") is not None or _OLD_CLASS in annotations_of(call.obj):
            return
        if defaults := [item for item in self._reader.every(_CLASSES) if _is_default(item)]:
            defaults.sort(key=lambda item: str(item["metadata"]["name"]))
            newest = max(defaults, key=lambda item: str(item["metadata"]["creationTimestamp"]))
            spec["storageClassName"] = newest["metadata"]["name"]


class StorageObjectInUseProtection(AdmissionPlugin):
    """Volumes and claims stay while they are used (spec: admission.StorageObjectInUseProtection)."""

    name = "StorageObjectInUseProtection"
    resources = tuple(PROTECTION)
    operations = ("CREATE",)

    async def admit(self, call: AdmissionRequest) -> None:
        metadata, finalizer = call.obj["metadata"], PROTECTION[call.resource.plural]
        given = metadata.get("finalizers") or []
        if finalizer not in given:
            metadata["finalizers"] = [*given, finalizer]


class PersistentVolumeClaimResize(AdmissionPlugin):
    """Claims grow only where their class lets them (spec: admission.PersistentVolumeClaimResize).

    That they are bound to a volume is seen to by the rules of the kind, which come first.
    """

    name = "PersistentVolumeClaimResize"
    resources = ("persistentvolumeclaims",)
    operations = ("UPDATE",)

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    async def validate(self, call: AdmissionRequest) -> None:
        old = call.old or {}
        if _size(call.obj) <= _size(old):
            return
        name = annotations_of(old).get(_OLD_CLASS) or dig(old, ("spec", "storageClassName")) or ""
        found = self._reader.find(_CLASSES, name) if name else None
        if not (found or {}).get("allowVolumeExpansion"):
            text = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc "
            raise call.refuse(f"{text}must support resize")


class PersistentVolumeLabel(AdmissionPlugin):
    """Volumes that were provisioned with a zone and a region stay there (spec: admission.PersistentVolumeLabel).

    Without a cloud nobody can be asked about other volumes: those of a cloud are refused, as by the reference.
    """

    name = "PersistentVolumeLabel"
    resources = ("persistentvolumes",)
    operations = ("CREATE",)

    async def admit(self, call: AdmissionRequest) -> None:
        volume = call.obj
        spec = volume["spec"] = volume.get("spec") or {}
        known = labels_of(volume)
        for zone, region in _PLACES:
            if _PROVISIONED_BY in annotations_of(volume) and zone in known and region in known:
                _require(spec, {zone: known[zone], region: known[region]})
                return
        for member, where, what, needs in _CLOUDS:
            if source := spec.get(member):
                raise call.refuse(f"error querying {what} {source.get(where, '')}: unable to build {needs}")


def _require(spec: Object, places: dict[str, str]) -> None:
    affinity = spec["nodeAffinity"] = dict(spec.get("nodeAffinity") or {})
    required = affinity["required"] = dict(affinity.get("required") or {})
    wanted = [
        {"key": key, "operator": "In", "values": sorted(value.split(_ZONES_BETWEEN))} for key, value in places.items()
    ]
    terms = []
    for term in required.get("nodeSelectorTerms") or [{}]:
        expressions = list(term.get("matchExpressions") or ())
        given = {item.get("key") for item in expressions}
        if given.isdisjoint(places):  # who wrote one of them knows better
            expressions += wanted
        terms.append({**term, "matchExpressions": expressions})
    required["nodeSelectorTerms"] = terms


def _is_default(found: Object) -> bool:
    return any(annotations_of(found).get(name) == "true" for name in _DEFAULT_CLASS)


def _size(claim: Object) -> Quantity:
    return read(dig(claim, ("spec", "resources", "requests"))).get("storage", Quantity())
