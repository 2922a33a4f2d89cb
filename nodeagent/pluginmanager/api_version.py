"""Version of the hooks and contracts, and the range of versions that a plugin declares in ``nodeagent_api``. No I/O."""

from __future__ import annotations

import re

from nodeagent import API_VERSION

_VERSION = re.compile(r"([0-9]{1,4})\.([0-9]{1,4})", re.ASCII)


def check_api(plugin: object) -> None:
    """Check the range that a plugin declares; without one, every version is accepted.

    :raises ValueError: the range is invalid, or does not contain the version of this agent.
    """
    declared = getattr(plugin, "nodeagent_api", None)
    if declared is None:
        return
    rule = f'must be a tuple of the first supported and the first unsupported version, such as ("{API_VERSION}", "2.0")'
    if not isinstance(declared, list | tuple) or len(declared) != 2:
        raise ValueError(f"nodeagent_api {rule}, not {declared!r:.80}")
    first, end = (_parse(each, rule) for each in declared)
    if not first <= _parse(API_VERSION, rule) < end:
        needed = f"{declared[0]} or newer and older than {declared[1]}"
        raise ValueError(f"needs hook API version {needed}; this agent has version {API_VERSION}")


def _parse(version: object, rule: str) -> tuple[int, int]:
    match = _VERSION.fullmatch(version) if isinstance(version, str) else None
    if match is None:
        raise ValueError(f"nodeagent_api {rule}, not {version!r:.80}")
    return int(match[1]), int(match[2])
