"""Tests for the PodTolerationRestriction admission plugin."""

from __future__ import annotations

import pytest

from apiserver_stub.admission import AdmissionChain
from apiserver_stub.admission.plugins.pod_toleration_restriction import PodTolerationRestriction
from apiserver_stub.apimachinery.status import ApiError
from nodeagent.base.identity import Identity


class Plain:
    """Lister of a namespace without annotations."""

    def namespace(self, name):
        return {"metadata": {"name": name}}


@pytest.mark.row("admission.PodTolerationRestriction")
async def test_tolerations_must_be_in_the_cluster_whitelist(call):
    head = {"apiVersion": "podtolerationrestriction.admission.k8s.io/v1alpha1", "kind": "Configuration"}
    memory = {"key": "node.kubernetes.io/memory-pressure", "operator": "Exists", "effect": "NoSchedule"}
    gpu = {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}
    admission = AdmissionChain([PodTolerationRestriction(Plain(), {**head, "whitelist": [memory]}, Identity())])
    burstable = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    plain = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}}
    requesting = {"metadata": {"name": "p"}, "spec": {"containers": [burstable]}}
    eager = {"metadata": {"name": "p"}, "spec": {"containers": [burstable], "tolerations": [gpu]}}

    await admission.check(call(plain))
    await admission.check(call(requesting))
    with pytest.raises(ApiError) as error:
        await admission.check(call(eager))

    assert "tolerations" not in plain["spec"]
    assert requesting["spec"]["tolerations"] == [memory]
    assert error.value.code == 403
    assert error.value.message.endswith("conflict with its cluster whitelist")
