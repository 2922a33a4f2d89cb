"""Tests for the NodeDeclaredFeatureValidator admission plugin."""

from __future__ import annotations

import pytest

from apiserver_stub.admission.plugins.node_declared_feature_validator import NodeDeclaredFeatureValidator
from apiserver_stub.apimachinery.status import ApiError

POD_LEVEL, INIT = "InPlacePodLevelResourcesVerticalScaling", "InPlacePodVerticalScalingInitContainers"


class Nodes:
    def __init__(self, *features):
        self.features = list(features)

    def find(self, resource, name):
        node = {"status": {"declaredFeatures": self.features}}
        return node if (resource, name) == ("core/nodes", "node-1") else None


def sized(cpu="1", init_cpu="1", node="node-1", policy=None):
    init = {"name": "init", "resources": {"requests": {"cpu": init_cpu}}, "restartPolicy": policy}
    spec = {"nodeName": node, "resources": {"requests": {"cpu": cpu}}, "initContainers": [init]}
    return {"metadata": {"name": "web"}, "spec": spec}


@pytest.mark.parametrize(
    ("features", "new", "old"),
    [
        ((), sized(), sized()),
        ((), sized("2", node=""), sized(node="")),
        ((POD_LEVEL,), sized("2"), sized()),
        ((POD_LEVEL, INIT), sized("2", "2"), sized()),
        ((), sized(init_cpu="2", policy="Always"), sized(policy="Always")),
    ],
)
async def test_change_is_admitted_if_the_node_declares_its_features(call, features, new, old):
    await NodeDeclaredFeatureValidator(Nodes(*features)).validate(call(new, old, operation="UPDATE"))


@pytest.mark.parametrize(
    ("new", "needed"),
    [(sized("2"), POD_LEVEL), (sized(init_cpu="2"), INIT), (sized("2", "2"), f"{POD_LEVEL}, {INIT}")],
)
async def test_change_is_rejected_if_the_node_lacks_a_feature(call, new, needed):
    with pytest.raises(ApiError) as caught:
        await NodeDeclaredFeatureValidator(Nodes()).validate(call(new, sized(), operation="UPDATE"))

    assert caught.value.code == 403
    text = f'pod update requires features {needed} which are not available on node "node-1"'
    assert caught.value.message.endswith(text)
