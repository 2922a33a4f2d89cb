"""Tests for the command ``kubelet``: version and exit codes as kubeadm and systemd expect them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nodeagent import __version__
from nodeagent.base.release import NEWEST, SelectedRelease
from nodeagent.cli import kubelet
from nodeagent.config.release import of_server, remember_release, select_release
from nodeagent.contracts.settings import NodeSettings

KUBEADM_PATTERN = r"^\s*Kubernetes v((0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)([-\w.+]*)?)\s*$"
"""Pattern by which kubeadm parses the output."""


@pytest.fixture(autouse=True)
def no_kubeadm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubelet, "_kubeadm_version", lambda: "")


def printed_version(capsys: pytest.CaptureFixture[str], root: Path, *, defaults: tuple[Path, ...] = ()) -> str:
    assert kubelet.run(["--version", f"--root-dir={root}"], defaults) == 0
    match = re.fullmatch(KUBEADM_PATTERN, capsys.readouterr().out)
    assert match is not None
    return match[1]


def test_version_without_server_and_kubeadm_is_the_latest(capsys, tmp_path):
    assert printed_version(capsys, tmp_path) == SelectedRelease(NEWEST).node_version.removeprefix("v")


def test_version_is_that_of_kubeadm_before_the_node_joins(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(kubelet, "_kubeadm_version", lambda: "v1.32.13")

    assert printed_version(capsys, tmp_path) == f"1.32.13+nodeagent-{__version__}"


def test_version_is_that_of_the_api_server_after_the_node_joined(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(kubelet, "_kubeadm_version", lambda: "v1.36.1")
    remember_release(tmp_path, of_server("v1.35.3"))

    assert printed_version(capsys, tmp_path) == f"1.35.3+nodeagent-{__version__}"


@pytest.mark.parametrize(
    "line",
    [
        "KUBELET_EXTRA_ARGS=--compatibility-version=1.34 --v=2",
        'KUBELET_EXTRA_ARGS="--node-ip=192.0.2.1 --compatibility-version 1.34"',
    ],
)
def test_version_is_that_in_the_file_of_extra_arguments(capsys, tmp_path, line):
    defaults = tmp_path / "kubelet"
    defaults.write_text(f"# comment\n{line}\n")

    shown = printed_version(capsys, tmp_path, defaults=(tmp_path / "absent", defaults))

    assert shown.startswith("1.34.")


def test_version_is_read_from_the_kubeadm_program(tmp_path, monkeypatch):
    monkeypatch.undo()
    executable = tmp_path / "kubeadm"
    executable.write_text('#!/bin/sh\n[ "$*" = "version --output=short" ] && echo v1.33.4\n')
    executable.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    assert kubelet.node_release([f"--root-dir={tmp_path}"], ()).patch_version == "v1.33.4"


def test_missing_configuration_exits_with_1_so_that_systemd_restarts(capsys, tmp_path):
    code = kubelet.run([f"--config={tmp_path}/config.yaml", f"--kubeconfig={tmp_path}/kubelet.conf"], ())

    assert code == 1
    assert f"{tmp_path}/config.yaml: cannot be read" in capsys.readouterr().err


def test_release_of_kubeadm_is_assumed_before_the_api_server_responds(tmp_path, monkeypatch):
    monkeypatch.setattr(kubelet, "_kubeadm_version", lambda: "v1.35.2")

    kubelet.run([f"--config={tmp_path}/config.yaml", f"--root-dir={tmp_path}"], ())

    settings = NodeSettings(root_dir=str(tmp_path), kubeconfig="/etc/kubernetes/kubelet.conf")
    assert (selected := select_release(settings)).assumed
    assert selected.patch_version == "v1.35.2"


@pytest.mark.parametrize(("code", "expected"), [(0, 0), (1, 1), (2, 1), (3, 3)])
def test_exit_code_of_an_invalid_configuration_is_1(tmp_path, monkeypatch, code, expected):
    monkeypatch.setattr("nodeagent.cli.run.run", lambda arguments: code)

    assert kubelet.run([f"--root-dir={tmp_path}"], ()) == expected


@pytest.mark.parametrize(
    "line",
    [
        "KUBELET_EXTRA_ARGS=--node-labels=owner=it's --compatibility-version=1.34",
        "KUBELET_EXTRA_ARGS=--node-labels=owner=it's --compatibility-version 1.34",
    ],
)
def test_extra_arguments_with_a_single_quote_are_read(capsys, tmp_path, line):
    defaults = tmp_path / "kubelet"
    defaults.write_text(f"{line}\n")

    assert printed_version(capsys, tmp_path, defaults=(defaults,)).startswith("1.34.")


@pytest.mark.parametrize("script", ["exit 1", None])
def test_kubeadm_that_fails_or_is_missing_is_ignored(tmp_path, monkeypatch, script):
    monkeypatch.undo()
    if script is not None:
        executable = tmp_path / "kubeadm"
        executable.write_text(f"#!/bin/sh\necho v1.33.4\n{script}\n")
        executable.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}")

    assert kubelet.node_release([f"--root-dir={tmp_path}"], ()).release == NEWEST


@pytest.mark.parametrize("flag", ["--version", "--version=true", "--version=raw"])
def test_release_of_the_flag_precedes_that_of_kubeadm(capsys, tmp_path, monkeypatch, flag):
    monkeypatch.setattr(kubelet, "_kubeadm_version", lambda: "v1.32.13")

    assert kubelet.run([flag, "--compatibility-version=1.34", f"--root-dir={tmp_path}"], ()) == 0
    assert capsys.readouterr().out.startswith("Kubernetes v1.34.")
