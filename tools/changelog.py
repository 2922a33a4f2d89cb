"""Add a release section to ``CHANGELOG.md`` from the fragments in ``changes/``.

``python tools/changelog.py 0.2.0`` writes the section and deletes the fragments; without a version, the section is
printed and nothing is changed.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FRAGMENT = re.compile(r"(\d+\.(?:feature|change|fix|removal|security))(?:\.([a-z0-9-]+))?\.md")
"""File name of a fragment: issue and kind, then an optional number or topic."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("version", nargs="?", help="the version to release; without it the section is only printed")
    parser.add_argument("--directory", type=Path, default=ROOT, help="the project's directory (default: %(default)s)")
    parser.add_argument("--date", help="date of the section (default: today)")
    arguments = parser.parse_args()
    command = [sys.executable, "-m", "towncrier", "build", "--yes", "--dir", str(arguments.directory)]
    command += ["--version", arguments.version] if arguments.version else ["--version", "Unreleased", "--draft"]
    command += ["--date", arguments.date] if arguments.date else []
    with numbered_topics(arguments.directory / "changes"):
        return subprocess.run(command, cwd=arguments.directory, check=False).returncode


@contextmanager
def numbered_topics(directory: Path) -> Iterator[None]:
    """Rename the fragments that have a topic to the numbers that towncrier requires; restore those that are left."""
    renamed = numbers(path.name for path in directory.iterdir())
    for name, numbered in renamed.items():
        (directory / name).rename(directory / numbered)
    try:
        yield
    finally:
        for name, numbered in renamed.items():
            if (directory / numbered).exists():
                (directory / numbered).rename(directory / name)


def numbers(names: Iterable[str]) -> dict[str, str]:
    """Return the new name, with a number that is not in use, of each fragment whose name has a topic."""
    matches = [match for name in sorted(names) if (match := FRAGMENT.fullmatch(name))]
    used = {(match[1], int(match[2] or 0)) for match in matches if (match[2] or "0").isdigit()}
    renamed = {}
    for match in matches:
        if match[2] and not match[2].isdigit():
            number = next(n for n in range(1, len(matches) + 1) if (match[1], n) not in used)
            used.add((match[1], number))
            renamed[match[0]] = f"{match[1]}.{number}.md"
    return renamed


if __name__ == "__main__":
    sys.exit(main())
