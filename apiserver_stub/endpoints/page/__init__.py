"""A page at ``/`` for browsers: nodes, pods and live events, for whoever may read them.

The files are for everyone and tell nothing; the page asks for what it shows with the credentials of who looks at it.
Programs get the list of paths at ``/`` as ever.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from aiohttp import web

from apiserver_stub.verbs.responses import Rendered
from nodeagent.base import page

_FILES = "/ui/"
_HTML = "text/html"


class Page:
    """The files, read once; the disk is read while it is made."""

    def __init__(self) -> None:
        self._files: Mapping[str, page.File] = page.load(Path(__file__).parent / "static")

    def answer(self, http: web.BaseRequest) -> Rendered | None:
        """Return the file that is asked for, ``None`` when the request is none of a browser for the page."""
        path = http.rel_url.raw_path
        if http.method not in ("GET", "HEAD"):
            return None
        if path == "/":
            found = self._files[page.INDEX] if _HTML in http.headers.get("Accept", "") else None
        else:
            found = self._files.get(path.removeprefix(_FILES)) if path.startswith(_FILES) else None
        if found is None:
            return None
        return Rendered(200, found.content_type, [found.body], page.HEADERS)
