"""Selection of the release: flag, API server, or the release that was used last."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path

from nodeagent.base.atomic_file import write_private
from nodeagent.base.release import NEWEST, OLDEST, Release, ReleaseOrigin, SelectedRelease
from nodeagent.contracts.settings import NodeSettings

_log = logging.getLogger(__name__)

_FILE = "compatibility-release.json"

Discover = Callable[[NodeSettings], str]
"""Function that returns the version of the API server, or the empty string if it does not respond soon."""


def select_release(settings: NodeSettings, discover: Discover | None = None) -> SelectedRelease:
    """Return the release for a command line; reads the root directory and may send one request.

    Without ``--compatibility-version`` it is the release of the API server. While the server does not respond, it is
    the release that was used last, so that an outage does not change the behavior of the node.

    :param discover: queries the API server; without it, only the root directory is read.
    """
    if settings.compatibility_version is not None:
        return SelectedRelease(settings.compatibility_version, ReleaseOrigin.FLAG)
    if settings.standalone:
        return SelectedRelease(OLDEST, ReleaseOrigin.STANDALONE)
    if discover is not None:
        found = of_server(discover(settings))
        if found is not None:
            return found
    return _recall(settings.root_dir) or SelectedRelease(OLDEST, ReleaseOrigin.ASSUMED)


def last_release(root_dir: str, default: ReleaseOrigin) -> SelectedRelease:
    """Return the release that the agent used last, for commands that check a file; else 1.29 with origin *default*."""
    return _recall(root_dir) or SelectedRelease(OLDEST, default)


def of_server(version: str) -> SelectedRelease | None:
    """Return the release for the version of an API server, or ``None`` if it is not a version."""
    try:
        release = Release.parse(version)
    except ValueError:
        return None
    return SelectedRelease(release.bounded(), ReleaseOrigin.API_SERVER, version)


def remember_release(root_dir: Path, selected: SelectedRelease) -> None:
    """Store *selected* for later starts; a failure is logged. An assumed release is not stored."""
    if selected.origin in (ReleaseOrigin.ASSUMED, ReleaseOrigin.STANDALONE, ReleaseOrigin.REMEMBERED):
        return
    document = {"release": str(selected.release), "serverVersion": selected.server_version}
    path = root_dir / _FILE
    data = (json.dumps(document) + "\n").encode()
    try:
        if not path.is_file() or path.read_bytes() != data:
            write_private(path, data)
    except OSError as error:
        _log.warning("Failed to store compatibility release", extra={"path": str(path), "err": str(error)})


def assume_release(root_dir: Path, server_version: str) -> None:
    """Store the release that the agent assumes until the API server responds for the first time.

    A stored release is kept. A failure is logged.
    """
    selected = of_server(server_version)
    if selected is None or (root_dir / _FILE).exists():
        return
    document = {"release": str(selected.release), "serverVersion": server_version, "assumed": True}
    try:
        write_private(root_dir / _FILE, (json.dumps(document) + "\n").encode())
    except OSError as error:
        _log.warning("Failed to store compatibility release", extra={"path": str(root_dir / _FILE), "err": str(error)})


def explain_bounds(selected: SelectedRelease) -> str:
    """Return a warning if the API server has another release than the selected one, or the empty string."""
    server = of_server(selected.server_version)
    if server is None or Release.parse(selected.server_version) == selected.release:
        return ""
    return (
        f"the API server has version {selected.server_version}; the agent supports releases {OLDEST} to {NEWEST} "
        f"and behaves as {selected.release}"
    )


def _recall(root_dir: str) -> SelectedRelease | None:
    path = Path(root_dir) / _FILE
    try:
        document = json.loads(path.read_bytes())
        release = Release.parse(document["release"]).bounded()
        server_version = str(document.get("serverVersion", ""))
        origin = ReleaseOrigin.ASSUMED if document.get("assumed") else ReleaseOrigin.REMEMBERED
    except (FileNotFoundError, PermissionError):  # Commands also run without root.
        return None
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        _log.warning("Failed to read compatibility release", extra={"path": str(path), "err": str(error)})
        return None
    return SelectedRelease(release, origin, server_version)
