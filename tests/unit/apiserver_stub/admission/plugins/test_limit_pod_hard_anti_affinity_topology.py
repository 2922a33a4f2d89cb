"""Tests for the LimitPodHardAntiAffinityTopology admission plugin."""

from __future__ import annotations

from apiserver_stub.admission import AdmissionChain
from apiserver_stub.admission.plugins.limit_pod_hard_anti_affinity_topology import LimitPodHardAntiAffinityTopology
from apiserver_stub.apimachinery.status import ApiError
from nodeagent.base.identity import Identity
from tests.unit.apiserver_stub.admission.conftest import make_call


async def test_required_anti_affinity_is_limited_to_the_host_name() -> None:
    hostname, zone = ({"topologyKey": f"{name}"} for name in ("kubernetes.io/hostname", "zone"))
    required, preferred = (f"{word}DuringSchedulingIgnoredDuringExecution" for word in ("required", "preferred"))
    for affinity, key in (
        (None, None),
        ({}, None),
        ({"podAntiAffinity": {required: None}}, None),
        ({"podAntiAffinity": {required: [hostname]}}, None),
        ({"podAntiAffinity": {required: [hostname, zone]}}, "zone"),
        ({"podAntiAffinity": {required: [{}]}}, ""),
        ({"podAntiAffinity": {preferred: [zone]}}, None),
        ({"podAffinity": {required: [zone]}}, None),
    ):
        found = None
        try:
            call = make_call({"metadata": {"name": "p"}, "spec": {"affinity": affinity}})
            await AdmissionChain([LimitPodHardAntiAffinityTopology(Identity())]).check(call)
        except ApiError as error:
            found = error.message.partition("is forbidden: ")[2]
        start = f"affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey {key} but only key"
        assert (found is None) if key is None else (found or "").startswith(start), (affinity, found)
