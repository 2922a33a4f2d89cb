"""Tests for the tracing configuration file."""

from __future__ import annotations

from pathlib import Path

import pytest

from apiserver_stub.telemetry.tracing import TracingError, load_config
from nodeagent.base.identity import Identity


def test_configuration_of_a_known_version_is_read(tmp_path: Path) -> None:
    file = tmp_path / "tracing.yaml"
    file.write_text("apiVersion: apiserver.config.k8s.io/v1beta1\nkind: TracingConfiguration\nendpoint: a:1\n")

    assert load_config(file, Identity()).endpoint == "a:1"


@pytest.mark.parametrize(
    ("version", "kind"),
    [
        ("apiserver.config.k8s.io/v1", "TracingConfiguration"),
        ("apiserver.config.k8s.io/v1beta1", "EgressSelectorConfiguration"),
    ],
)
def test_other_kind_or_version_is_rejected(tmp_path: Path, version: str, kind: str) -> None:
    file = tmp_path / "tracing.yaml"
    file.write_text(f"apiVersion: {version}\nkind: {kind}\n")

    with pytest.raises(TracingError, match=f'no kind "{kind}" is registered for version "{version}"'):
        load_config(file, Identity())


def test_missing_file_is_reported_with_its_path(tmp_path: Path) -> None:
    path = tmp_path / "tracing.yaml"

    with pytest.raises(TracingError) as raised:
        load_config(path, Identity())

    assert str(raised.value) == (
        f'failed to read tracing config: unable to read tracing configuration from "{path}": '
        f"open {path}: no such file or directory"
    )
