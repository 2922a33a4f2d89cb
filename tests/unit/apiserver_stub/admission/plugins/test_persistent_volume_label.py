"""Tests for the PersistentVolumeLabel admission plugin."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.admission.plugins.persistent_volume_label import PersistentVolumeLabel
from apiserver_stub.apimachinery.status import ApiError
from nodeagent.base.identity import Identity
from tests.unit.apiserver_stub.admission.conftest import make_call

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
OLD_ZONE, OLD_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"
PROVISIONED = {"pv.kubernetes.io/provisioned-by": "x"}


def volume(labels: Any = None, annotations: Any = PROVISIONED, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "v", "labels": labels or {}, "annotations": annotations}, "spec": spec}


def within(key: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": "In", "values": list(values)}


def terms(*each: list[Any]) -> dict[str, Any]:
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": list(expressions)} for expressions in each]}}


TOPOLOGY = {ZONE: "b__a", REGION: "r"}
REQUIREMENTS = [within(ZONE, "a", "b"), within(REGION, "r")]
OTHER = within("disk", "ssd")


@pytest.mark.parametrize(
    ("obj", "affinity"),
    [
        (volume(TOPOLOGY), terms(REQUIREMENTS)),
        (volume({OLD_ZONE: "a", OLD_REGION: "r"}), terms([within(OLD_ZONE, "a"), within(OLD_REGION, "r")])),
        (volume({**TOPOLOGY, OLD_ZONE: "z", OLD_REGION: "z"}), terms(REQUIREMENTS)),
        (volume(TOPOLOGY, annotations={}), None),
        (volume({ZONE: "a"}), None),
        (volume({REGION: "a"}), None),
        (
            volume(TOPOLOGY, nodeAffinity=terms([OTHER], [within(ZONE, "c")])),
            terms([OTHER, *REQUIREMENTS], [within(ZONE, "c")]),
        ),
        (volume(TOPOLOGY, nodeAffinity={"required": {}}), terms(REQUIREMENTS)),
    ],
)
@pytest.mark.row("admission.PersistentVolumeLabel")
async def test_provisioned_volume_is_restricted_to_its_zone_and_region(obj: Any, affinity: Any) -> None:
    await PersistentVolumeLabel(Identity()).admit(make_call(obj))

    assert obj["spec"].get("nodeAffinity") == affinity


async def test_volumes_of_cloud_providers_are_rejected() -> None:
    plugin, source = PersistentVolumeLabel(Identity()), {"gcePersistentDisk": {"pdName": "d"}}

    with pytest.raises(ApiError, match="error querying GCE PD volume d: unable to build GCE cloud provider for PD"):
        await plugin.admit(make_call(volume(annotations={}, **source)))
    await plugin.admit(make_call(volume(TOPOLOGY, **source)))
    await plugin.admit(make_call({"metadata": {"name": "v"}, "spec": None}))
