"""Tests for values that are computed only for changed pod specs."""

import msgspec

from nodeagent.model.pod import Pod, PodStatus
from nodeagent.model.pod_values import PodValues
from nodeagent.testing import make_pod


def test_only_added_and_removed_pods_are_reported():
    values = PodValues(lambda pod: pod.name)
    a, b, c = make_pod("a"), make_pod("b"), make_pod("c")

    assert values.update([a, b]) == (["a", "b"], [])
    assert values.update([a, b]) == ([], [])
    assert values.update([c, a]) == (["c"], ["b"])
    assert values.update([]) == ([], ["a", "c"])


def test_value_of_an_unchanged_spec_is_computed_once():
    computed: list[str] = []

    def compute(pod: Pod) -> str:
        computed.append(pod.name)
        return pod.spec.hostname or ""

    values, pod = PodValues(compute), make_pod("web")
    values.update([pod])
    values.update([msgspec.structs.replace(pod, status=PodStatus(phase="Running"))])
    changed = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, hostname="other"))

    assert values.update([changed]) == (["other"], [""])
    assert computed == ["web", "web"]
