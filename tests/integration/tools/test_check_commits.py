"""Tests for ``tools/check_commits.py``: which commits are checked, and what is rejected."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
IDENTITY = {f"GIT_{role}_{part}": "a@b.example" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")}
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "NODEAGENT_"))},
    **IDENTITY,
    "GIT_CONFIG_GLOBAL": "/dev/null",
}
OLD_STYLE = "Tell what is refused in one place, and share the node of a test's own, as it was before the rule."


def git(directory, *arguments):
    done = subprocess.run(
        ["git", *arguments], cwd=directory, env=ENVIRONMENT, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def commit(directory, message):
    git(directory, "commit", "--quiet", "--allow-empty", "--message", message)
    return git(directory, "rev-parse", "HEAD")


def check(directory, **environment):
    command = [sys.executable, str(ROOT / "tools" / "check_commits.py"), "--directory", str(directory)]
    return subprocess.run(
        command, env={**ENVIRONMENT, **environment}, capture_output=True, text=True, check=False, timeout=60
    )


@pytest.fixture
def clone(tmp_path):
    """A repository whose branch ``main`` has two commits before the rule."""
    directory = tmp_path / "clone"
    directory.mkdir()
    git(directory, "init", "--quiet", "--initial-branch", "main")
    commit(directory, OLD_STYLE)
    since = commit(directory, OLD_STYLE)
    (directory / "pyproject.toml").write_text(f'[tool.commits]\nsince = "{since}"\n')
    git(directory, "add", "pyproject.toml")
    return directory


def test_commits_before_the_rule_are_not_checked(clone):
    commit(clone, "build: record the first checked commit")

    assert check(clone).returncode == 0


@pytest.mark.parametrize(
    ("message", "rule"),
    [
        (OLD_STYLE, "T1"),
        ("Reject unknown fields", "T7"),
        ("config: Reject unknown fields", "T7"),
        ("config: reject unknown fields.", "T3"),
        ("config: reject unknown fields\nwithout an empty line", "B4"),
    ],
)
def test_commit_after_the_rule_is_checked(clone, message, rule):
    commit(clone, message)

    result = check(clone)

    assert result.returncode == 1
    assert f": {rule} " in result.stderr


def test_branch_is_checked_from_merge_base(clone):
    commit(clone, "A subject on main that is judged elsewhere")
    git(clone, "switch", "--quiet", "--create", "topic")
    commit(clone, "config/codec: reject unknown fields")

    assert check(clone).returncode == 0


def test_environment_variable_sets_first_checked_commit(clone):
    since = commit(clone, "An unusual subject")
    commit(clone, "config: reject unknown fields")

    assert check(clone, NODEAGENT_COMMITS_SINCE=since).returncode == 0


@pytest.mark.parametrize(("subject", "status"), [("config: reject unknown fields", 0), ("Reject unknown fields", 1)])
def test_shallow_clone_is_checked_completely(clone, tmp_path, subject, status):
    commit(clone, subject)
    git(tmp_path, "clone", "--quiet", "--depth", "1", clone.as_uri(), "shallow")

    assert check(tmp_path / "shallow").returncode == status


def test_rewritten_history_is_reported_and_not_checked(clone):
    (clone / "pyproject.toml").write_text(f'[tool.commits]\nsince = "{"1" * 40}"\n')

    result = check(clone)

    assert result.returncode == 0
    assert "update the commit in [tool.commits]" in result.stdout


def test_directory_without_git_is_accepted(tmp_path):
    assert check(tmp_path, GIT_CEILING_DIRECTORIES=str(tmp_path.parent)).returncode == 0
