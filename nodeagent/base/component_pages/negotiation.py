"""Content negotiation of ``/flagz`` and ``/statusz``: text, or an API object as JSON or YAML. No I/O."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from enum import StrEnum

from nodeagent.base.release import Release
from nodeagent.base.structs import Struct

GROUP = "config.k8s.io"
TEXT, JSON, YAML = "text/plain", "application/json", "application/yaml"
MEDIA_TYPES = (JSON, YAML, TEXT)


class ObjectVersion(StrEnum):
    """Version of the API objects."""

    V1ALPHA1 = "v1alpha1"
    V1BETA1 = "v1beta1"

    @property
    def since(self) -> Release:
        """The release that introduced the version."""
        return Release(1, 35) if self is ObjectVersion.V1ALPHA1 else Release(1, 36)


class Representation(Struct, frozen=True):
    """Media type of a response, and the version of the object; ``None`` for text."""

    media_type: str = TEXT
    version: ObjectVersion | None = None
    pretty: bool = False


def negotiate(accept: str, kind: str, versions: Collection[ObjectVersion]) -> Representation | None:
    """Return the preferred representation of an ``Accept`` header, ``None`` if none of them is available.

    An object must be requested with group, version and kind: ``application/json;g=config.k8s.io;v=v1beta1;as=Statusz``.
    """
    if not accept.strip():
        return Representation()
    for media_type, parameters in _by_preference(accept):
        if media_type in ("*/*", "text/*", TEXT):
            if not {"g", "v", "as"} & parameters.keys():
                return Representation()
            continue
        version = next((each for each in versions if each == parameters.get("v")), None)
        named = parameters.get("g") == GROUP and parameters.get("as") == kind
        if media_type in (JSON, YAML, "application/*") and named and version is not None:
            chosen = JSON if media_type == "application/*" else media_type
            return Representation(chosen, version, parameters.get("pretty") in ("1", "true"))
    return None


def _by_preference(accept: str) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield media types with their parameters, the highest quality first, those of quality 0 never."""
    found: list[tuple[float, str, Mapping[str, str]]] = []
    for item in accept.split(","):
        media_type, *rest = (part.strip() for part in item.split(";"))
        pairs = (text.partition("=") for text in rest)
        parameters = {name.strip().lower(): value.strip().strip('"') for name, _, value in pairs}
        try:
            quality = float(parameters.pop("q", "1"))
        except ValueError:
            quality = 0.0
        if quality > 0:
            found.append((quality, media_type.lower(), parameters))
    found.sort(key=lambda each: -each[0])
    yield from ((media_type, parameters) for _, media_type, parameters in found)
