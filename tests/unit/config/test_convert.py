"""Tests for the conversion of configuration files to the native format."""

from __future__ import annotations

import pytest
import yaml

from nodeagent.config.convert import convert
from nodeagent.config.load import load_configuration
from nodeagent.errors import ConfigError

REFERENCE = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
TEXT = """\
kubeReserved: {cpu: 100m}
kubeReservedCgroup: /p
enforceNodeAllocatable: [pods, kube-reserved]
port: 0
syncFrequency: 0s
evictionHard: {}
staticPodPath: manifests
staticPodURL: http://x
staticPodURLHeader: {A: [secret]}
featureGates: {KubeletTracing: true}
"""


def test_names_are_translated_and_unset_values_omitted(native):
    assert convert(native(TEXT, header=REFERENCE)) == {
        "apiVersion": "nodeagent.config.k8s.io/v1beta1",
        "kind": "NodeAgentConfiguration",
        "platformReserved": {"cpu": "100m"},
        "platformReservedCgroup": "/p",
        "enforceNodeAllocatable": ["pods", "platform-reserved"],
        "evictionHard": {},
        "staticPodPath": "manifests",
        "staticPodURL": "http://x",
        "staticPodURLHeader": {"A": ["secret"]},
        "featureGates": {"NodeAgentTracing": True},
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "volumePluginDir": "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/",
    }


def test_converted_file_loads_as_the_same_configuration(native):
    path = native(TEXT, header=REFERENCE)
    converted = native(yaml.safe_dump(convert(path)), header="", name="native.yaml")

    assert load_configuration([f"--config={converted}"]).config == load_configuration([f"--config={path}"]).config


def test_native_file_is_unchanged(native):
    path = native("maxPods: 3\n")

    assert convert(path)["maxPods"] == 3
    assert convert(path)["containerRuntimeEndpoint"] == "unix:///run/test.sock"


def test_unknown_fields_and_kinds_are_rejected(native):
    with pytest.raises(ConfigError, match="did you mean maxPods"):
        convert(native("maxPod: 3\n"))
    with pytest.raises(ConfigError, match="kind"):
        convert(native("kind: Pod\n", header=""))
