"""PersistentVolumeLabel admission plugin: restrict provisioned volumes to their zone and region."""

from __future__ import annotations

from apiserver_stub.admission import AdmissionPlugin
from apiserver_stub.admission.listers import annotations_of, labels_of
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.verbs.admission import AdmissionRequest
from nodeagent.base import identity

_LABEL_DOMAIN = identity.current().label_domain
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


class PersistentVolumeLabel(AdmissionPlugin):
    """Restrict provisioned volumes to their zone and region (spec: admission.PersistentVolumeLabel).

    Volumes of cloud providers are rejected as upstream does without a cloud provider.
    """

    name = "PersistentVolumeLabel"
    order = 2000
    enabled_by_default = False
    deprecated = True
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
        if given.isdisjoint(places):
            expressions += wanted
        terms.append({**term, "matchExpressions": expressions})
    required["nodeSelectorTerms"] = terms
