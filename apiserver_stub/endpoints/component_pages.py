"""``/flagz`` and ``/statusz``: options, start time and versions of the server, as text or as API objects.

spec: gate.ComponentFlagz, gate.ComponentStatusz
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.apimachinery.version import git_version
from apiserver_stub.verbs.responses import Reply
from nodeagent.base.component_pages.negotiation import MEDIA_TYPES, ObjectVersion, Representation, negotiate
from nodeagent.base.component_pages.pages import (
    ComponentRun,
    deprecation_of,
    encode_object,
    flags_object,
    flags_page,
    status_object,
    status_page,
)
from nodeagent.base.release import Release
from nodeagent.base.structs import Struct

if TYPE_CHECKING:
    from apiserver_stub.apimachinery.request import Request
    from nodeagent.base.aio import Clock

COMPONENT = "kube-apiserver"
FLAGS_PATH, STATUS_PATH = "/flagz", "/statusz"
_TEXT = "text/plain; charset=utf-8"
_PATHS = ("/healthz", "/livez", "/metrics", "/readyz", "/version")


class PageSettings(Struct, frozen=True):
    """Contents of the pages, and which of them are served."""

    release: Release
    version: str
    """Version that the server reports; empty for that of the release."""
    flags: Callable[[], Mapping[str, object]]
    """Return the effective values of all options."""
    serves_flags: bool = False
    serves_status: bool = False


class ComponentPages:
    """The pages of a server that started at *started_at*."""

    read_only = True

    def __init__(self, settings: PageSettings, started_at: datetime, clock: Clock) -> None:
        self._settings, self._started_at, self._clock = settings, started_at, clock
        served = {FLAGS_PATH: settings.serves_flags, STATUS_PATH: settings.serves_status}
        self.paths = [path for path, is_served in served.items() if is_served]
        """Paths of the pages."""
        self._paths = sorted([*_PATHS, *self.paths])
        self._versions = tuple(version for version in ObjectVersion if version.since <= settings.release)

    async def respond(self, request: Request) -> Reply | None:
        """Return the page at a path, ``None`` for other paths.

        :raises ApiError: 406, none of the accepted representations is available.
        """
        path, settings = request.info.path, self._settings
        if path == FLAGS_PATH and settings.serves_flags:
            accepted, values = self._negotiate(request, "Flagz"), settings.flags()
            if accepted.version is None:
                return _text(flags_page(COMPONENT, values))
            return self._object(request, flags_object(COMPONENT, values, accepted.version), accepted)
        if path == STATUS_PATH and settings.serves_status:
            accepted, run = self._negotiate(request, "Statusz"), self._run()
            if accepted.version is None:
                return _text(status_page(run))
            return self._object(request, status_object(run, accepted.version), accepted)
        return None

    def _negotiate(self, request: Request, kind: str) -> Representation:
        accepted = negotiate(request.headers.get("Accept", ""), kind, self._versions)
        if accepted is None:
            text = f"only the following media types are accepted: {', '.join(MEDIA_TYPES)}"
            raise ApiError(406, "NotAcceptable", text, {})
        return accepted

    def _object(self, request: Request, content: Mapping[str, Any], accepted: Representation) -> Reply:
        if warning := deprecation_of(content, accepted, self._settings.release):
            request.warnings.append(warning)
        return Reply(200, body=encode_object(content, accepted), content_type=accepted.media_type)

    def _run(self) -> ComponentRun:
        release = self._settings.release
        version = self._settings.version or git_version(release)
        now = self._clock.wall()
        return ComponentRun(COMPONENT, self._started_at, now, version, release, str(release), self._paths)


def _text(text: str) -> Reply:
    return Reply(200, body=text.encode(), content_type=_TEXT, headers={"X-Content-Type-Options": "nosniff"})
