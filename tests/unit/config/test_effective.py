"""Tests for the effective configuration of plugins."""

from __future__ import annotations

import pytest

from nodeagent.config.effective import Effective
from nodeagent.config.features import build_gates
from nodeagent.contracts.settings import NodeSettings
from nodeagent.errors import ConfigError
from nodeagent.testing import make_config


def test_flag_values_contain_fields_settings_and_unset_fields() -> None:
    settings = NodeSettings(root_dir="/var/lib/shelf")

    values = Effective(make_config(max_pods=42), settings, build_gates({})).flag_values()

    assert (values["max-pods"], values["root-dir"]) == (42, "/var/lib/shelf")
    assert values["max-parallel-image-pulls"] is None


def test_header_values_are_masked() -> None:
    config = make_config(static_pod_url_header={"Authorization": ["Bearer do-not-show"]})

    effective = Effective(config, NodeSettings(), build_gates({}))

    assert "do-not-show" not in str(effective.masked())
    assert "do-not-show" not in str(effective.flag_values())


def test_configuration_of_the_component_kubelet_has_the_kubelets_form() -> None:
    config = make_config(
        platform_api_qps=7, enforce_node_allocatable=["pods", "platform-reserved"], feature_gates={"NodeAgentPSI": True}
    )

    shown = Effective(config, NodeSettings(), build_gates({})).masked()

    assert (shown["kind"], shown["apiVersion"]) == ("KubeletConfiguration", "kubelet.config.k8s.io/v1beta1")
    assert (shown["kubeAPIQPS"], "platformAPIQPS" in shown) == (7, False)
    assert shown["enforceNodeAllocatable"] == ["pods", "kube-reserved"]
    assert shown["featureGates"] == {"KubeletPSI": True}


def test_missing_provider_file_is_a_configuration_error() -> None:
    settings = NodeSettings(image_credential_provider_config="/no/such/file.yaml")

    with pytest.raises(ConfigError, match=r"/no/such/file\.yaml"):
        Effective(make_config(), settings, build_gates({})).credential_providers()
