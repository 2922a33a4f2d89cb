"""API errors and Status objects, with reason, details and causes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from nodeagent.base.release import OLDEST, Release
from nodeagent.base.structs import Struct

_NEWER_LENGTH_RULE = Release(1, 32)
"""First release with the newer wording for texts that are too long."""
_ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}


class Cause(Struct, frozen=True):
    """One validation error of a field."""

    reason: str
    message: str
    field: str


class ApiError(Exception):
    """An error that is returned to the client as a Status; *details* has its wire format."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code, self.reason, self.message = code, reason, message
        self.details, self.headers = details, headers or {}
        self.metadata: dict[str, Any] = {}

    def body(self) -> dict[str, Any]:
        """Return the Status object."""
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.metadata,
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        status["code"] = self.code
        return status


def success(details: dict[str, Any]) -> dict[str, Any]:
    """Return the Status for a successful deletion."""
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def done(code: int) -> dict[str, Any]:
    """Return the Status for a successful action (binding, eviction)."""
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code}


def details_of(group: str, kind: str, name: str = "") -> dict[str, Any]:
    """Return the details of a Status; the core group and an empty name are omitted."""
    details = {}
    if name:
        details["name"] = name
    if group:
        details["group"] = group
    details["kind"] = kind
    return details


def qualified(resource: str, group: str) -> str:
    """Return *resource* with its group, like ``leases.coordination.k8s.io``, without it for the core group."""
    return f"{resource}.{group}" if group else resource


def bad_request(message: str) -> ApiError:
    return ApiError(400, "BadRequest", message)


def unauthorized() -> ApiError:
    return ApiError(401, "Unauthorized", "Unauthorized")


def forbidden(group: str, resource: str, name: str, message: str) -> ApiError:
    text = f'{qualified(resource, group)} "{name}" is forbidden: {message}'
    return ApiError(403, "Forbidden", text, details_of(group, resource, name))


def not_found(group: str, resource: str, name: str) -> ApiError:
    return ApiError(
        404, "NotFound", f'{qualified(resource, group)} "{name}" not found', details_of(group, resource, name)
    )


def no_such_resource() -> ApiError:
    return ApiError(404, "NotFound", "the server could not find the requested resource", {})


def method_not_allowed() -> ApiError:
    return ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})


def already_exists(group: str, resource: str, name: str) -> ApiError:
    return ApiError(
        409, "AlreadyExists", f'{qualified(resource, group)} "{name}" already exists', details_of(group, resource, name)
    )


def conflict(group: str, resource: str, name: str, message: str) -> ApiError:
    text = f'Operation cannot be fulfilled on {qualified(resource, group)} "{name}": {message}'
    return ApiError(409, "Conflict", text, details_of(group, resource, name))


def modified(group: str, resource: str, name: str) -> ApiError:
    return conflict(
        group,
        resource,
        name,
        "the object has been modified; please apply your changes to the latest version and try again",
    )


def expired(message: str) -> ApiError:
    return ApiError(410, "Expired", message)


def too_large(message: str) -> ApiError:
    return ApiError(413, "RequestEntityTooLarge", f"Request entity too large: {message}")


def unsupported_media_type(message: str) -> ApiError:
    return ApiError(415, "UnsupportedMediaType", message)


def unavailable(message: str) -> ApiError:
    return ApiError(503, "ServiceUnavailable", message, headers={"Retry-After": "1"})


def internal(message: str) -> ApiError:
    return ApiError(500, "InternalError", f"Internal error occurred: {message}", {"causes": [{"message": message}]})


def invalid(group: str, kind: str, name: str, causes: Sequence[Cause], *, grouped: bool = True) -> ApiError:
    """Return the 422 error with all *causes*; the message contains the group if *grouped* is set."""
    texts = list(dict.fromkeys(f"{cause.field}: {cause.message}" for cause in causes))
    text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    details = details_of(group if grouped else "", kind, name)
    details["causes"] = [{"reason": cause.reason, "message": cause.message, "field": cause.field} for cause in causes]
    label = qualified(kind, group) if grouped else kind
    return ApiError(422, "Invalid", f'{label} "{name}" is invalid: {text}', details)


def unprocessable(message: str = "the server rejected our request due to an error in our request") -> ApiError:
    """Return the 422 error for a JSON patch that cannot be applied."""
    return ApiError(422, "Invalid", message, {})


def required(field: str, detail: str = "") -> Cause:
    return Cause("FieldValueRequired", f"Required value: {detail}" if detail else "Required value", field)


def invalid_value(field: str, value: object, detail: str) -> Cause:
    return Cause("FieldValueInvalid", f"Invalid value: {quote(value)}: {detail}", field)


def invalid_without_value(field: str, detail: str) -> Cause:
    """Return the error for a value that the message does not show."""
    return Cause("FieldValueInvalid", f"Invalid value: {detail}", field)


def not_supported(field: str, value: object, supported: Sequence[str]) -> Cause:
    values = ", ".join(f'"{name}"' for name in supported)
    return Cause("FieldValueNotSupported", f"Unsupported value: {quote(value)}: supported values: {values}", field)


def forbidden_value(field: str, detail: str) -> Cause:
    return Cause("FieldValueForbidden", f"Forbidden: {detail}", field)


def not_found_value(field: str, value: object, detail: str = "") -> Cause:
    """Return the error for a reference to a missing part of the object."""
    return Cause("FieldValueNotFound", f"Not found: {quote(value)}{f': {detail}' if detail else ''}", field)


def invalid_each(field: str, value: object, problems: Iterable[str]) -> list[Cause]:
    """Return an error for every reason why *value* is invalid."""
    return [invalid_value(field, value, problem) for problem in problems]


def internal_error(field: str, detail: str) -> Cause:
    """Return the error for a value that could not be validated."""
    return Cause("InternalError", f"Internal error: {detail}", field)


def duplicate(field: str, value: object) -> Cause:
    return Cause("FieldValueDuplicate", f"Duplicate value: {quote(value)}", field)


def too_long(field: str, limit_bytes: int, release: Release = OLDEST) -> Cause:
    rule = "must have at most" if release < _NEWER_LENGTH_RULE else "may not be more than"
    return Cause("FieldValueTooLong", f"Too long: {rule} {limit_bytes} bytes", field)


def too_many(field: str, count: int, limit: int) -> Cause:
    return Cause("FieldValueTooMany", f"Too many: {count}: must have at most {limit} items", field)


def quote(value: object) -> str:
    """Return *value* as messages show it: text in quotes, other scalars bare, a list of texts as such, else JSON."""
    if isinstance(value, str):
        return _quote_text(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return '"null"'
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return f"[]string{{{', '.join(map(quote, value))}}}"
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return str(value)


def _quote_text(text: str) -> str:
    if text.isprintable():
        escaped = text.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return f'"{"".join(map(_escape, text))}"'


def _escape(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x20 or code == 0x7F else f"\\u{code:04x}" if code < 1 << 16 else f"\\U{code:08x}"
