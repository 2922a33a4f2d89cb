"""Approval of custom kinds in the API groups of the Kubernetes community, by an annotation."""

from __future__ import annotations

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, invalid_value, required
from nodeagent.base import gourl

ANNOTATION = "api-approved.kubernetes.io"
_PROTECTED = (".k8s.io", ".kubernetes.io")
_MORE = "see https://github.com/kubernetes/enhancements/pull/1111"
MISSING, BYPASSED, APPROVED, INVALID = "missing", "bypassed", "approved", "invalid"


def is_protected(group: str) -> bool:
    """Return whether kinds in *group* require an approval."""
    return group in ("k8s.io", "kubernetes.io") or group.endswith(_PROTECTED)


def approval(definition: Object) -> tuple[str, str]:
    """Return the approval of *definition* and the reason."""
    text = (definition["metadata"].get("annotations") or {}).get(ANNOTATION) or ""
    rule = f'protected groups must have approval annotation "{ANNOTATION}"'
    if not text:
        return MISSING, f"{rule}, {_MORE}"
    if text.startswith("unapproved"):
        return BYPASSED, f'not approved: "{text}"'
    try:
        url = gourl.parse_request(text)
    except gourl.InvalidUrl:
        url = None
    if url is not None and url.host and url.scheme:
        return APPROVED, f"approved in {text}"
    return INVALID, f'{rule} with either a URL or a reason starting with "unapproved", {_MORE}'


def validate_approval(new: Object, old: Object | None) -> list[Cause]:
    """Return an error if the kind requires an approval and has none; a stored definition may keep its state."""
    if not is_protected(new["spec"].get("group") or ""):
        return []
    state, reason = approval(new)
    if state in (APPROVED, BYPASSED) or (old is not None and approval(old)[0] == state):
        return []
    field = f"metadata.annotations[{ANNOTATION}]"
    if state == MISSING:
        return [required(field, reason)]
    return [invalid_value(field, new["metadata"]["annotations"][ANNOTATION], reason)]
