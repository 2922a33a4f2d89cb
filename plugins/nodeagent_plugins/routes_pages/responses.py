"""HTTP responses with API objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from aiohttp import web

from nodeagent.base.component_pages.negotiation import JSON, MEDIA_TYPES, Representation
from nodeagent.base.component_pages.pages import deprecation_of, encode_object
from nodeagent.base.release import Release


def object_response(content: Mapping[str, Any], accepted: Representation, release: Release) -> web.Response:
    """Return the response with an API object; a version that *release* deprecates causes a warning."""
    response = web.Response(body=encode_object(content, accepted), content_type=accepted.media_type)
    if text := deprecation_of(content, accepted, release):
        response.headers["Warning"] = f'299 - "{text}"'
    return response


def not_acceptable() -> web.Response:
    """Return the response to a request that accepts none of the available representations."""
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f"only the following media types are accepted: {', '.join(MEDIA_TYPES)}",
        "reason": "NotAcceptable",
        "code": 406,
    }
    return web.Response(status=406, body=msgspec.json.encode(status), content_type=JSON)
