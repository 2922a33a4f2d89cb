"""Words of a setting or of an environment variable in a unit of systemd. No I/O."""

from __future__ import annotations

import shlex


def split_words(text: str) -> list[str]:
    """Return the words of *text* without their quotes; if these are not balanced, the parts between spaces."""
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()
