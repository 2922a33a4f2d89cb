"""Tests for the PodNodeSelector admission plugin."""

from __future__ import annotations

import pytest

from apiserver_stub.admission import AdmissionChain
from apiserver_stub.admission.plugins.pod_node_selector import PodNodeSelector
from apiserver_stub.apimachinery.status import ApiError
from nodeagent.base.identity import Identity


class Plain:
    """Lister of a namespace without annotations."""

    def namespace(self, name):
        return {"metadata": {"name": name}}


@pytest.mark.row("admission.PodNodeSelector")
async def test_node_selector_must_be_in_the_whitelist_of_the_namespace(call):
    selectors = {"clusterDefaultNodeSelector": "pool=shared", "default": "pool=shared,zone=a"}
    admission = AdmissionChain([PodNodeSelector(Plain(), {"podNodeSelectorPluginConfig": selectors}, Identity())])
    allowed, rejection = ({"metadata": {"name": "p"}, "spec": {"nodeSelector": {"zone": zone}}} for zone in "ab")

    await admission.check(call(allowed))
    with pytest.raises(ApiError) as error:
        await admission.check(call(rejection))

    assert allowed["spec"]["nodeSelector"] == {"pool": "shared", "zone": "a"}
    assert error.value.code == 403
    assert error.value.message.endswith("pod node label selector labels conflict with its namespace whitelist")
