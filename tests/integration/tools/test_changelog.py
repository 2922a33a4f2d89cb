"""Tests for ``tools/changelog.py``: release sections from the fragments in ``changes/``."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture
def project(tmp_path):
    """A repository with this project's towncrier settings, one release and three fragments."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "CHANGELOG.md").write_text(
        "# Changelog\n\n<!-- towncrier release notes start -->\n\n## 0.1.0\n\nFirst release.\n"
    )
    changes = tmp_path / "changes"
    changes.mkdir()
    (changes / "README.md").write_text("# Change fragments\n")
    (changes / "7.feature.md").write_text("Pods have names.\n")
    (changes / "7.feature.volumes.md").write_text("Volumes have names.\n")
    (changes / "8.fix.2.md").write_text("Probes have names.\n")
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
    return tmp_path


def changelog(project, *arguments):
    command = [sys.executable, str(ROOT / "tools" / "changelog.py"), "--directory", str(project), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def fragments(project):
    return sorted(path.name for path in (project / "changes").iterdir())


def test_release_adds_section_and_deletes_fragments(project):
    changelog(project, "0.2.0")

    text = (project / "CHANGELOG.md").read_text()
    features = text.index("### Features")
    assert "## 0.2.0 (20" in text
    assert features < text.index("- Pods have names.\n") < text.index("### Bug fixes") < text.index("## 0.1.0")
    assert features < text.index("- Volumes have names.\n") < text.index("### Bug fixes")
    assert text.index("### Bug fixes") < text.index("- Probes have names.\n")
    assert fragments(project) == ["README.md"]


def test_date_of_the_section_can_be_set(project):
    assert "## Unreleased (2023-11-14)" in changelog(project, "--date", "2023-11-14")


def test_preview_prints_section_and_changes_nothing(project):
    before = fragments(project), (project / "CHANGELOG.md").read_text()

    printed = changelog(project)

    assert "- Volumes have names.\n" in printed
    assert (fragments(project), (project / "CHANGELOG.md").read_text()) == before
