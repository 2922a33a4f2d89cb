"""HTTP responses with API objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import yaml
from aiohttp import web

from nodeagent.base.release import Release
from nodeagent_plugins.routes_pages.negotiation import JSON, MEDIA_TYPES, YAML, ObjectVersion, Representation


def object_response(content: Mapping[str, Any], accepted: Representation, release: Release) -> web.Response:
    """Return the response with an API object; a version that *release* deprecates causes a warning."""
    if accepted.media_type == YAML:
        body = yaml.safe_dump(content).encode()
    else:
        body = msgspec.json.encode(content)
        body = msgspec.json.format(body, indent=2) if accepted.pretty else body
    response = web.Response(body=body, content_type=accepted.media_type)
    if accepted.version is ObjectVersion.V1ALPHA1 and release >= ObjectVersion.V1BETA1.since:
        endpoint = str(content["kind"]).lower()
        text = f"This version of the {endpoint} endpoint is deprecated. Please use a newer version."
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
