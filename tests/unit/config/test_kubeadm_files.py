"""Tests for configuration files as kubeadm and operators write them for different releases."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodeagent.base.duration import Duration
from nodeagent.config.load import load_configuration

FILES = sorted(Path(__file__).with_name("kubeadm").glob("*.yaml"))
RUNTIME = "unix:///run/containerd/containerd.sock"
RELEASES = ("1.29", "1.32", "1.36")


def release_of(path):
    return path.stem.rpartition("-")[2]


def unknown_api_server(_settings):
    return ""


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_file_loads_without_unknown_fields(path):
    loaded = load_configuration([f"--config={path}", f"--compatibility-version={release_of(path)}"])

    assert loaded.config.container_runtime_endpoint == RUNTIME
    assert loaded.tolerated == ()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_file_loads_while_the_api_server_has_never_responded(path, tmp_path):
    loaded = load_configuration(
        [f"--config={path}", "--kubeconfig=/etc/kubernetes/kubelet.conf", f"--root-dir={tmp_path}"], unknown_api_server
    )

    assert loaded.release.assumed
    assert loaded.tolerated == ()


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("path", [path for path in FILES if "kubeadm" in path.name], ids=lambda path: path.stem)
def test_file_of_kubeadm_loads_for_every_release(path, release):
    loaded = load_configuration([f"--config={path}", f"--compatibility-version={release}"])

    config = loaded.config
    assert config.static_pod_path == "/etc/kubernetes/manifests"
    assert config.cluster_dns == ("10.96.0.10",)
    assert config.cgroup_driver == "systemd"
    assert config.sync_frequency == Duration.parse("1m")
    assert config.container_log_monitor_interval == Duration.parse("10s")
    assert config.logging.flush_frequency.duration == Duration.parse("5s")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_drop_in_of_another_release_is_merged(path):
    arguments = [f"--config={path}", f"--config-dir={path.parent}", f"--compatibility-version={release_of(path)}"]

    loaded = load_configuration(arguments)

    assert loaded.config.max_pods == 200
    assert loaded.tolerated == ()


def test_flags_file_of_kubeadm_loads():
    flags = [
        "--container-runtime-endpoint=unix:///run/containerd/containerd.sock",
        "--pod-infra-container-image=registry.k8s.io/pause:3.9",
        "--hostname-override=node-1",
        "--register-with-taints=node-role.kubernetes.io/control-plane=:NoSchedule",
        "--register-schedulable=true",
        "--cloud-config=/etc/kubernetes/cloud.conf",
        "--keep-terminated-pod-volumes=false",
        "--iptables-drop-bit=15",
        "--fail-cgroupv1=false",
        "--log-text-split-stream=false",
        "--log-text-info-buffer-size=0",
    ]

    loaded = load_configuration(flags)

    assert loaded.settings.node_name == "node-1"
    assert loaded.config.fail_cgroup_v1 is False
    ignored = [warning for warning in loaded.warnings if warning.startswith(("--cloud-config", "--keep-terminated"))]
    assert len(ignored) == 2


def test_default_thresholds_complete_the_configured_ones(load_text):
    loaded = load_text("mergeDefaultEvictionSettings: true\nevictionHard: {memory.available: 500Mi}\n")

    assert loaded.config.eviction_hard == {
        "memory.available": "500Mi",
        "nodefs.available": "10%",
        "nodefs.inodesFree": "5%",
        "imagefs.available": "15%",
    }
    assert str(loaded.provenance.origin("evictionHard[nodefs.available]")) == "default by mergeDefaultEvictionSettings"


@pytest.mark.parametrize("text", ["evictionHard: {memory.available: 500Mi}", "mergeDefaultEvictionSettings: true"])
def test_thresholds_are_merged_only_on_request(load_text, text):
    assert len(load_text(text).config.eviction_hard) == (1 if "Hard" in text else 4)


def test_setting_of_a_later_gate_only_warns_while_the_release_is_assumed(native, tmp_path):
    arguments = [f"--config={native('imageMaximumGCAge: 24h')}", "--kubeconfig=/k", f"--root-dir={tmp_path}"]

    loaded = load_configuration(arguments, unknown_api_server)

    assert any("imageMaximumGCAge has no effect" in warning for warning in loaded.warnings)
    assert not loaded.gates.enabled("ImageMaximumGCAge")


def test_hidden_metrics_follow_the_release(load_text):
    assert load_text("showHiddenMetricsForVersion: '1.35'", "--compatibility-version=1.36")
