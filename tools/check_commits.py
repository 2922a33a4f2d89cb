"""Check the messages of new commits with gitlint (``.gitlint``).

The checked commits are those after ``NODEAGENT_COMMITS_SINCE``, or after the point where the branch left ``main``, or,
on ``main``, after the commit in ``[tool.commits]`` of ``pyproject.toml``: the last one before the rule. Without a git
clone there is nothing to check.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BRANCHES = ("origin/main", "main")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--directory", type=Path, default=ROOT, help="the clone to check (default: %(default)s)")
    directory = parser.parse_args().directory
    if git(directory, "rev-parse", "--verify", "HEAD^{commit}") is None:
        print("commit messages: not a git clone, nothing to check")
        return 0
    commits = new_commits(directory)
    if commits is None:
        # The history was rewritten, for example imported elsewhere: which commits are new cannot be determined.
        print("commit messages: not checked, update the commit in [tool.commits]: it is not in this history")
        return 0
    command = [sys.executable, "-m", "gitlint.cli", "--config", str(ROOT / ".gitlint"), "--target", str(directory)]
    return min(subprocess.run([*command, "--commits", commits], check=False).returncode, 1)


def new_commits(directory: Path) -> str | None:
    """Return the revision range to check, or ``None`` if its start is unknown in a complete clone."""
    since = os.environ.get("NODEAGENT_COMMITS_SINCE") or branch_start(directory)
    if since is None:
        settings = tomllib.loads((directory / "pyproject.toml").read_text(encoding="utf-8"))
        since = settings["tool"]["commits"]["since"]
    if git(directory, "merge-base", "--is-ancestor", since, "HEAD") is not None:
        return f"{since}..HEAD"
    # A shallow clone that lacks the start is cut off after it, so that all of its commits are new.
    return "HEAD" if git(directory, "rev-parse", "--is-shallow-repository") == "true" else None


def branch_start(directory: Path) -> str | None:
    """Return the commit where the current branch left ``main``, or ``None`` on ``main`` itself."""
    head = git(directory, "rev-parse", "HEAD")
    for branch in BRANCHES:
        if git(directory, "rev-parse", "--verify", "--quiet", branch) is not None:
            start = git(directory, "merge-base", branch, "HEAD")
            return start if start != head else None
    return None


def git(directory: Path, *arguments: str) -> str | None:
    """Return the output of a git command, or ``None`` if it failed or git is not installed."""
    try:
        done = subprocess.run(["git", *arguments], cwd=directory, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


if __name__ == "__main__":
    sys.exit(main())
