"""Version of the runtime in the form that the node reports. No I/O."""

from __future__ import annotations

import re

_SEMANTIC = re.compile(r"v?(?P<version>\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]*)?)", re.ASCII)
_NUMBERS = re.compile(r"v?(?P<version>\d+(\.\d+)+)", re.ASCII)


def reported_version(version: str) -> str:
    """Return a semantic version unchanged, and only the numbers of others: ``1.6.20`` for ``1.6.20~ds1``.

    Distributions extend the version of their packages in ways that clients of the API server cannot parse.
    """
    text = version.strip()
    match = _SEMANTIC.fullmatch(text) or _NUMBERS.match(text)
    return match["version"] if match else version
