"""Tests for the managers that the configuration requests: client certificate, serving certificate, both or none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nodeagent.testing.context import make_config, make_context
from nodeagent_plugins.certificates import nodeagent_configure


def requested(tmp_path: Path, settings: dict[str, str], **config: bool) -> set[str]:
    """Return the certificates that a configuration requests."""
    found: list[Any] = []
    context = make_context(tmp_path, config=make_config(**config))
    context.settings = replace(context.settings, **settings)
    plugins: Any = SimpleNamespace(register=lambda plugin, name: found.append((name, plugin)))

    nodeagent_configure(context.config, context, plugins)

    return {name for _, plugin in found for name in ("client", "serving") if getattr(plugin, f"_{name}")}


@pytest.mark.parametrize(
    ("config", "settings", "expected"),
    [
        ({"rotate_certificates": False}, {}, set()),
        ({"rotate_certificates": True}, {}, set()),
        ({"rotate_certificates": False}, {"kubeconfig": "/k"}, set()),
        ({"rotate_certificates": True}, {"kubeconfig": "/k"}, {"client"}),
        ({"rotate_certificates": False, "server_tls_bootstrap": True}, {"kubeconfig": "/k"}, {"serving"}),
        ({"rotate_certificates": True, "server_tls_bootstrap": True}, {"kubeconfig": "/k"}, {"client", "serving"}),
    ],
)
def test_certificates_are_requested_as_configured(
    tmp_path: Path, config: dict[str, bool], settings: dict[str, str], expected: set[str]
) -> None:
    assert requested(tmp_path, settings, **config) == expected


@pytest.mark.parametrize(
    ("written", "rotates", "expected"),
    [(True, False, {"client"}), (True, True, {"client"}), (False, True, {"client"}), (False, False, set())],
)
def test_existing_kubeconfig_is_kept_unless_its_certificate_is_rotated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: bool, rotates: bool, expected: set[str]
) -> None:
    monkeypatch.setattr("nodeagent_plugins.certificates.bootstrap.prepare_kubeconfig", lambda *_: written)
    settings = {"kubeconfig": "/k", "bootstrap_kubeconfig": "/b"}

    assert requested(tmp_path, settings, rotate_certificates=rotates) == expected
