"""Web page of the API server at ``/``: nodes, pods and events, updated by watches.

The static files are public and contain no data of the cluster; the page requests it with the credentials of its user.
Clients other than browsers get the list of paths at ``/``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from apiserver_stub.transport.http import HttpRequest
from apiserver_stub.transport.rendered import Rendered
from nodeagent.base import page

_FILES = "/ui/"
_PREFIXES = (_FILES, "/?")
_HTML = "text/html"


class Page:
    """The static files, read once when the object is created."""

    def __init__(self) -> None:
        self._files: Mapping[str, page.File] = page.load(Path(__file__).parent / "static")

    def respond(self, http: HttpRequest) -> Rendered | None:
        """Return the response with the requested file; ``None`` if the request is not for the page."""
        if not (http.target == "/" or http.target.startswith(_PREFIXES)) or http.method not in ("GET", "HEAD"):
            return None
        if (path := http.path) == "/":
            file = self._files[page.INDEX] if _HTML in http.headers.get("Accept", "") else None
        else:
            file = self._files.get(path.removeprefix(_FILES))
        if file is None:
            return None
        return Rendered(200, file.content_type, [file.body], page.HEADERS)
