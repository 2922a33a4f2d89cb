"""Web pages: static files of a package, with shared styles and a strict content security policy for both binaries.

The files contain no data of a node or a cluster: a page requests it with the credentials of its user. No file refers
to another site, and the policy forbids the browser to load from any.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from nodeagent.base.structs import Struct

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": _POLICY,
    "Cache-Control": "no-cache",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
INDEX = "index.html"


class File(Struct, frozen=True):
    """One file of a page."""

    body: bytes
    content_type: str


def load(directory: Path) -> Mapping[str, File]:
    """Return the files of the page in *directory* by name, including those shared by all pages. Reads the disk."""
    files = {}
    for source in (Path(__file__).parent, directory):
        for path in sorted(source.iterdir()):
            if path.suffix in _TYPES:
                files[path.name] = File(path.read_bytes(), _TYPES[path.suffix])
    return files
