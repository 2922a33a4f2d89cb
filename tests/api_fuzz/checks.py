"""Checks of responses: errors that no request may cause. No I/O."""

from __future__ import annotations

import json
import re
from typing import Any

import yaml

from nodeagent.base import apiproto
from tests.api_fuzz.client import Reply
from tests.api_fuzz.requests import FuzzRequest

_TO_NODES = re.compile(r"/(?:log|exec|attach|portforward|proxy)(?:[/?]|$)")
"""Subresources that connect to nodes, pods and services, none of which exist: their failure is 500, 502 or 503."""
_TIMEOUTS = ("Too large resource version", "request did not complete within", "Timeout")
_ALLOCATIONS = ("failed to allocate", "provided port is already allocated", "range is full")
"""Texts of errors of Services that kube-apiserver reports with code 500 too."""
_WITHOUT_ADDRESS = "no preferred addresses found"
_SAME_AS_UPSTREAM = (
    "without impersonating a user",
    "object has no apiVersion field",
    "the spec replicas field ",  # of a scale; it "does not exist"
)
"""Texts of errors of clients that kube-apiserver reports with code 500 too."""


def problem(request: FuzzRequest, reply: Reply) -> str:
    """Return the reason why the response is wrong, or an empty string."""
    if reply.error:
        return reply.error
    if reply.code >= 500 and not _is_expected(request, reply):
        return f"{reply.code}: {message(reply)[:400]}"
    if reply.content_type == "application/json" and reply.body and not request.is_watch:
        return _malformed(reply)
    return ""


def message(reply: Reply) -> str:
    """Return the message of an error."""
    return str(_decoded(reply).get("message", "")) or reply.body[:400].decode(errors="replace")


def _is_expected(request: FuzzRequest, reply: Reply) -> bool:
    if request.method == "HEAD":
        return True
    text = reply.body.decode(errors="replace")
    if reply.code == 504:
        return any(part in text for part in _TIMEOUTS)
    if _TO_NODES.search(request.path) and ("Internal error" not in text or _WITHOUT_ADDRESS in text):
        return True
    if any(part in text for part in (*_ALLOCATIONS, *_SAME_AS_UPSTREAM)):
        return True
    status = _decoded(reply)
    # kube-apiserver reports some errors of clients as 500 too; most of these have no reason.
    return reply.code == 500 and status.get("kind") == "Status" and "reason" not in status


def _malformed(reply: Reply) -> str:
    try:
        response = json.loads(reply.body)
    except ValueError as error:
        return f"malformed response: {error}"
    if reply.code >= 400 and isinstance(response, dict) and response.get("code", reply.code) != reply.code:
        return f"status {response['code']} in a response with code {reply.code}"
    return ""


def _decoded(reply: Reply) -> dict[str, Any]:
    try:
        if reply.content_type == "application/yaml":
            found = yaml.safe_load(reply.body)
        elif reply.body.startswith(b"k8s\0"):
            found = apiproto.decode(reply.body)
        else:
            found = json.loads(reply.body)
    except (ValueError, yaml.YAMLError, apiproto.ProtobufError):
        return {}
    return found if isinstance(found, dict) else {}
