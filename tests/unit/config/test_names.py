"""Tests for names of fields and feature gates in both formats."""

import pytest

from nodeagent.config.names import kubelet_form, kubelet_gate, native_gate


@pytest.mark.parametrize(
    ("native", "kubelet"),
    [
        ("RuntimeClassInImageCriApi", "RuntimeClassInImageCriAPI"),
        ("NodeAgentTracing", "KubeletTracing"),
        ("PlatformProxyDrainingTerminatingNodes", "KubeProxyDrainingTerminatingNodes"),
        ("NodeSwap", "NodeSwap"),
    ],
)
def test_gate_has_a_name_per_format(native, kubelet):
    assert native_gate(kubelet) == native
    assert kubelet_gate(native) == kubelet


def test_configuration_has_the_names_of_the_kubelet():
    native = {
        "apiVersion": "x",
        "platformReserved": {"cpu": "1"},
        "enforceNodeAllocatable": ["pods", "platform-reserved"],
        "featureGates": {"NodeAgentTracing": True},
        "maxPods": 7,
    }

    converted = kubelet_form({key: value for key, value in native.items() if key != "apiVersion"})

    assert converted["kind"] == "KubeletConfiguration"
    assert converted["kubeReserved"] == {"cpu": "1"} and "platformReserved" not in converted
    assert converted["enforceNodeAllocatable"] == ["pods", "kube-reserved"]
    assert (converted["featureGates"], converted["maxPods"]) == ({"KubeletTracing": True}, 7)


def test_missing_lists_stay_missing():
    assert set(kubelet_form({"maxPods": 7})) == {"kind", "apiVersion", "maxPods"}
