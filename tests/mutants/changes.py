"""Lines that changed since a revision."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator

from tests.mutants.sites import PACKAGES, ROOT

_HUNK = re.compile(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@")


def changed_lines(revision: str) -> set[tuple[str, int]]:
    """Return path and number of each line that was added or changed since *revision*.

    :raises subprocess.CalledProcessError: *revision* does not exist.
    """
    command = ["git", "diff", "--unified=0", "--no-color", "--no-ext-diff", "--src-prefix=a/", "--dst-prefix=b/"]
    output = subprocess.run(
        [*command, revision, "--", *PACKAGES], cwd=ROOT, check=True, capture_output=True, encoding="utf-8"
    ).stdout
    return set(parse(output))


def parse(diff: str) -> Iterator[tuple[str, int]]:
    """Yield path and number of each added line of a *diff* without context."""
    path = ""
    for line in diff.splitlines():
        if line.startswith("+++ "):
            path = line.removeprefix("+++ b/")
        elif hunk := _HUNK.match(line):
            start, count = int(hunk[1]), int(hunk[2] or 1)
            yield from ((path, number) for number in range(start, start + count))
