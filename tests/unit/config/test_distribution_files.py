"""Tests for ``config validate`` with configuration files in the style of kubeadm and of Kubernetes distributions."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest
import yaml

from nodeagent.cli.config import add_parser
from nodeagent.config.load import load_configuration

FILES = sorted(
    path
    for path in (*Path(__file__).with_name("kubeadm").iterdir(), *Path(__file__).with_name("distributions").iterdir())
    if path.suffix in (".yaml", ".json")
)
RELEASES = ("1.29", "1.36")
LATER = {"fieldOf137": {"mode": "Fast"}, "logging": {"options": {"xml": {"infoBufferSize": "0"}}}}
"""Fields that no release has yet."""


def release_of(path):
    return path.stem.rpartition("-")[2]


def has_gates_of_its_release(path):
    return "operator" in path.name


@pytest.fixture
def validate(capsys):
    """Return a function that validates a file of another host and returns the exit code and both outputs."""

    def run(path, release, *flags):
        parser = argparse.ArgumentParser()
        add_parser(parser.add_subparsers())
        words = ["config", "validate", "--other-host", f"--compatibility-version={release}", *flags, str(path)]
        arguments = parser.parse_args(words)
        code = arguments.handler(arguments)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_file_is_valid_in_strict_mode(validate, path):
    code, out, err = validate(path, release_of(path), "--strict")

    assert (code, out) == (0, f"{path}: valid NodeAgentConfiguration\n"), err


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("path", [path for path in FILES if not has_gates_of_its_release(path)], ids=lambda p: p.stem)
def test_file_is_valid_for_the_oldest_and_the_newest_release(validate, path, release):
    code, _, err = validate(path, release, "--strict")

    assert code == 0, err


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_fields_of_a_newer_release_are_warnings_and_errors_in_strict_mode(validate, tmp_path, path):
    document = yaml.safe_load(path.read_text())
    later = tmp_path / path.name
    later.write_text(json.dumps(document | LATER))

    code, _, err = validate(later, release_of(path))
    strict_code, _, strict_err = validate(later, release_of(path), "--strict")

    assert code == 0, err
    for field in ("fieldOf137", "logging.options.xml"):
        assert any(f"{field}: " in line and line.endswith("ignored") for line in err.splitlines())
        assert f"{field}: " in strict_err
    assert strict_code == 1
    assert strict_err.splitlines()[-1] == "2 problems"


def test_settings_of_the_distributions_apply():
    def load(name):
        path = Path(__file__).with_name("distributions") / name
        return load_configuration([f"--config={path}", f"--compatibility-version={release_of(path)}"]).config

    k3s, eks, gke, kind = map(load, ("k3s-1.33.yaml", "eks-1.31.json", "gke-1.30.yaml", "kind-1.36.yaml"))

    assert k3s.container_runtime_endpoint == "unix:///run/k3s/containerd/containerd.sock"
    assert k3s.eviction_minimum_reclaim == {"imagefs.available": "10%", "nodefs.available": "10%"}
    assert (eks.max_pods, eks.server_tls_bootstrap, len(eks.tls_cipher_suites)) == (29, True, 3)
    assert (gke.read_only_port, gke.pod_pids_limit, gke.max_parallel_image_pulls) == (10255, 4096, 3)
    assert (kind.cgroup_root, kind.fail_swap_on, kind.image_gc_high_threshold_percent) == ("/kubelet", False, 100)
