"""Tests for ``nodeagent plugins new``: names, generated files, existing directories."""

from __future__ import annotations

import tomllib

import pytest

from nodeagent.authoring.check import check_plugin
from nodeagent.authoring.scaffold import LICENSES, NAME_RULE, ScaffoldError, check_name, write_project
from nodeagent.cli.main import main


@pytest.mark.parametrize("name", ["a1", "image_labels", "x" * 40])
def test_valid_names_are_accepted(name):
    check_name(name)


@pytest.mark.parametrize(
    "name", ["", "a", "Image", "1a", "a-b", "a.b", "_a", "a_", "a__b", "x" * 41, "class", "plugins", "../a", "é1"]
)
def test_invalid_names_are_rejected_with_the_rule(name):
    with pytest.raises(ScaffoldError) as caught:
        check_name(name)
    assert NAME_RULE in str(caught.value)


def test_name_of_an_installed_third_party_plugin_is_rejected():
    with pytest.raises(ScaffoldError, match='plugin name "policy" is in use by an installed third-party plugin'):
        check_name("policy", frozenset({"policy"}))


def test_name_of_a_bundled_plugin_is_accepted_for_its_replacement(capsys, tmp_path):
    assert main(["plugins", "new", "image_gc", "--dir", str(tmp_path / "x")]) == 0
    assert "it replaces the bundled plugin image_gc" in capsys.readouterr().out


@pytest.mark.parametrize("license_name", LICENSES)
def test_project_has_an_entry_point_and_no_findings(tmp_path, license_name):
    files = write_project("image_labels", tmp_path / "new", license_name=license_name)

    document = tomllib.loads((tmp_path / "new" / "pyproject.toml").read_text())
    assert document["project"]["entry-points"]["nodeagent"] == {"image_labels": "nodeagent_image_labels"}
    assert document["project"].get("license", "none") == license_name
    assert (tmp_path / "new" / "LICENSE").exists() == (license_name != "none")
    assert not [file for file in files if "${" in file.read_text()]
    assert check_plugin(tmp_path / "new", load=False) == []


def test_non_empty_directory_is_not_modified(tmp_path, capsys):
    (tmp_path / "mine").write_text("precious")
    assert main(["plugins", "new", "shelf", "--dir", str(tmp_path)]) == 2
    assert "not an empty directory" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.parametrize("kind", ["missing", "empty", "file"])
def test_project_is_written_to_a_new_or_empty_directory(tmp_path, kind):
    directory = tmp_path / "new"
    if kind == "empty":
        directory.mkdir()
    if kind == "file":
        directory.touch()
        with pytest.raises(ScaffoldError, match="is not an empty directory"):
            write_project("shelf", directory)
    else:
        assert write_project("shelf", directory)


def test_default_directory_is_named_after_the_distribution(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["plugins", "new", "paper_shelf", "--license", "MIT"]) == 0
    assert (tmp_path / "nodeagent-paper-shelf" / "nodeagent_paper_shelf" / "__init__.py").is_file()
    assert "cd nodeagent-paper-shelf" in capsys.readouterr().out
