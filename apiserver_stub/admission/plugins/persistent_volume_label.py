"""PersistentVolumeLabel admission plugin: restrict provisioned volumes to their zone and region."""

from __future__ import annotations

from typing import Self

from apiserver_stub.admission import AdmissionContext, AdmissionPlugin
from apiserver_stub.admission.listers import annotations_of, labels_of
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.verbs.admission import AdmissionRequest
from nodeagent.base.identity import Identity

_ZONE_SEPARATOR = "__"
_CLOUDS = (
    ("gcePersistentDisk", "pdName", "GCE PD volume", "GCE cloud provider for PD"),
    ("azureDisk", "diskName", "AzureDisk volume", "Azure cloud provider for AzureDisk"),
    ("vsphereVolume", "volumePath", "vSphere Volume", "vSphere cloud provider"),
)


class PersistentVolumeLabel(AdmissionPlugin):
    """Restrict provisioned volumes to their zone and region (spec: admission.PersistentVolumeLabel).

    Volumes of cloud providers are rejected, as upstream does if no cloud provider is configured.
    """

    name = "PersistentVolumeLabel"
    order = 2000
    enabled_by_default = False
    deprecated = True
    resources = ("persistentvolumes",)
    operations = ("CREATE",)

    def __init__(self, identity: Identity) -> None:
        self._provisioned_by = identity.label("provisioned-by", "pv")
        self._topology_labels = tuple(
            (identity.label("zone", prefix), identity.label("region", prefix))
            for prefix in ("topology", "failure-domain.beta")
        )

    @classmethod
    async def create(cls, context: AdmissionContext) -> Self:
        return cls(context.identity)

    async def admit(self, call: AdmissionRequest) -> None:
        volume = call.obj
        spec = volume["spec"] = volume.get("spec") or {}
        labels = labels_of(volume)
        for zone, region in self._topology_labels:
            if self._provisioned_by in annotations_of(volume) and zone in labels and region in labels:
                _require(spec, {zone: labels[zone], region: labels[region]})
                return
        for source_name, id_field, what, needs in _CLOUDS:
            if source := spec.get(source_name):
                raise call.forbidden(f"error querying {what} {source.get(id_field, '')}: unable to build {needs}")


def _require(spec: Object, topology: dict[str, str]) -> None:
    affinity = spec["nodeAffinity"] = dict(spec.get("nodeAffinity") or {})
    required = affinity["required"] = dict(affinity.get("required") or {})
    requirements = [
        {"key": key, "operator": "In", "values": sorted(value.split(_ZONE_SEPARATOR))}
        for key, value in topology.items()
    ]
    terms = []
    for term in required.get("nodeSelectorTerms") or [{}]:
        expressions = list(term.get("matchExpressions") or ())
        keys = {item.get("key") for item in expressions}
        if keys.isdisjoint(topology):
            expressions += requirements
        terms.append({**term, "matchExpressions": expressions})
    required["nodeSelectorTerms"] = terms
