"""Tests for the selection of the release: flag, API server, last known release."""

from __future__ import annotations

import logging

import pytest

from nodeagent.base.release import Release, ReleaseOrigin, SelectedRelease
from nodeagent.config.load import load_configuration, load_file
from nodeagent.config.release import assume_release, last_release, remember_release, select_release
from nodeagent.contracts.settings import NodeSettings
from nodeagent.errors import ConfigError


@pytest.fixture
def settings(tmp_path):
    return NodeSettings(root_dir=str(tmp_path), kubeconfig="/etc/kubeconfig")


def respond(version):
    return lambda _settings: version


def unexpected(_settings):
    raise AssertionError("the API server must not be queried")


def test_flag_takes_precedence(settings, tmp_path):
    stated = NodeSettings(root_dir=str(tmp_path), kubeconfig="/k", compatibility_version=Release(1, 34))

    assert select_release(stated, unexpected) == SelectedRelease(Release(1, 34), ReleaseOrigin.FLAG)


def test_standalone_node_has_the_oldest_release(tmp_path):
    selected = select_release(NodeSettings(root_dir=str(tmp_path)), unexpected)

    assert (str(selected.release), selected.origin) == ("1.29", ReleaseOrigin.STANDALONE)


def test_release_is_that_of_the_api_server(settings):
    selected = select_release(settings, respond("v1.34.1"))

    assert selected == SelectedRelease(Release(1, 34), ReleaseOrigin.API_SERVER, "v1.34.1")


@pytest.mark.parametrize(("version", "release"), [("v1.40.0", "1.36"), ("v1.20.0", "1.29")])
def test_unsupported_release_of_the_server_is_bounded(settings, version, release):
    assert str(select_release(settings, respond(version)).release) == release


@pytest.mark.parametrize("version", ["", "unknown"])
def test_release_is_assumed_if_the_server_has_never_responded(settings, version):
    selected = select_release(settings, respond(version))

    assert (str(selected.release), selected.assumed) == ("1.29", True)


def test_stated_assumption_applies_until_the_server_has_responded(settings, tmp_path):
    assume_release(tmp_path, "v1.33.4")
    before = select_release(settings, respond(""))

    remember_release(tmp_path, select_release(settings, respond("v1.34.1")))
    assume_release(tmp_path, "v1.35.0")

    assert (str(before.release), before.assumed, before.patch_version) == ("1.33", True, "v1.33.4")
    after = select_release(settings, respond(""))
    assert (str(after.release), after.assumed) == ("1.34", False)


def test_outage_does_not_change_the_release(settings, tmp_path):
    remember_release(tmp_path, select_release(settings, respond("v1.35.3")))

    selected = select_release(settings, respond(""))

    assert selected == SelectedRelease(Release(1, 35), ReleaseOrigin.REMEMBERED, "v1.35.3")
    assert selected.patch_version == "v1.35.3"


def test_flag_is_remembered_and_an_assumed_release_is_not(settings, tmp_path):
    remember_release(tmp_path, SelectedRelease(Release(1, 33), ReleaseOrigin.FLAG))
    remember_release(tmp_path, SelectedRelease(Release(1, 29), ReleaseOrigin.ASSUMED))

    assert str(select_release(settings).release) == "1.33"


@pytest.mark.parametrize("content", ["", "{", "[]", '{"release": 3}', '{"release": "x"}', "\udcff"])
def test_unreadable_record_is_ignored_with_a_warning(settings, tmp_path, caplog, content):
    (tmp_path / "compatibility-release.json").write_bytes(content.encode("utf-8", "surrogateescape"))

    with caplog.at_level(logging.WARNING):
        assert select_release(settings).assumed

    assert "Failed to read compatibility release" in caplog.text


def test_unwritable_root_directory_is_logged(tmp_path, caplog):
    (tmp_path / "file").write_text("")

    with caplog.at_level(logging.WARNING):
        remember_release(tmp_path / "file", SelectedRelease(Release(1, 33), ReleaseOrigin.FLAG))

    assert "Failed to store compatibility release" in caplog.text


@pytest.mark.parametrize("value", ["1.28", "1.37", "latest"])
def test_unsupported_flag_value_is_rejected(value):
    with pytest.raises(ConfigError, match="--compatibility-version"):
        load_configuration([f"--compatibility-version={value}"])


def test_release_determines_the_gates(load_text, tmp_path):
    old, new = load_text(), load_text("", "--compatibility-version=1.36")

    assert not old.gates.enabled("ImageMaximumGCAge")
    assert new.gates.enabled("ImageMaximumGCAge")
    assert (str(old.release.release), str(new.release.release)) == ("1.29", "1.36")


def test_newer_server_is_a_warning(native, tmp_path):
    arguments = [f"--config={native()}", "--kubeconfig=/k", f"--root-dir={tmp_path}"]

    loaded = load_configuration(arguments, respond("v1.40.1"))

    assert any("the API server has version v1.40.1" in warning for warning in loaded.warnings)
    assert loaded.release.node_version.startswith("v1.36.2+nodeagent-")


def test_commands_use_the_release_that_was_used_last(native, tmp_path):
    path = native("imageMaximumGCAge: 24h")
    unknown = last_release(str(tmp_path), ReleaseOrigin.ASSUMED)
    remember_release(tmp_path, SelectedRelease(Release(1, 36), ReleaseOrigin.FLAG))
    stored = last_release(str(tmp_path), ReleaseOrigin.ASSUMED)

    assert unknown.assumed
    assert not load_file(path, unknown).gates.enabled("ImageMaximumGCAge")
    assert load_file(path, stored).gates.enabled("ImageMaximumGCAge")
