"""Query options of writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.validation.metadata import validate_field_manager

if TYPE_CHECKING:
    from apiserver_stub.apimachinery.request import Request


def check_options(request: Request, kind: str) -> None:
    """Validate the query options of a write.

    :raises ApiError: 422, an option is invalid.
    """
    if not request.query:
        return
    wrong: list[tuple[str, str, str]] = []
    runs = request.query.all("dryRun")
    if any(value != "All" for value in runs):
        shown = ", ".join(f'"{value}"' for value in runs)
        text = f'Unsupported value: []string{{{shown}}}: supported values: "All"'
        wrong.append(("FieldValueNotSupported", text, "dryRun"))
    manager = request.query.get("fieldManager")
    for cause in validate_field_manager(manager, "fieldManager"):
        wrong.append((cause.reason, cause.message, cause.field))
    validation = request.query.get("fieldValidation")
    if validation not in ("", "Ignore", "Warn", "Strict"):
        text = f'Unsupported value: "{validation}": supported values: "", "Ignore", "Strict", "Warn"'
        wrong.append(("FieldValueNotSupported", text, "fieldValidation"))
    if wrong:
        raise invalid_options(request, kind, wrong)


def invalid_options(request: Request, kind: str, wrong: list[tuple[str, str, str]]) -> ApiError:
    """Return the 422 error for query options; *wrong* has the reason, message and field of each problem."""
    meta = request.identity.group("meta")
    texts = [f"{field}: {message}" for _, message, field in wrong]
    text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    causes: list[dict[str, Any]] = [
        {"reason": reason, "message": message, "field": field} for reason, message, field in wrong
    ]
    return ApiError(
        422,
        "Invalid",
        f'{kind}.{meta} "" is invalid: {text}',
        {"group": meta, "kind": kind, "causes": causes},
    )
