"""Validation of CustomResourceDefinitions."""

from apiserver_stub.validation.custom_resource_definitions.approval import (
    APPROVED,
    BYPASSED,
    MISSING,
    approval,
    is_protected,
)
from apiserver_stub.validation.custom_resource_definitions.definition import (
    definition_name_problems,
    validate_definition,
    validate_definition_status,
)
from apiserver_stub.validation.custom_resource_definitions.formats import format_warnings

__all__ = [
    "APPROVED",
    "BYPASSED",
    "MISSING",
    "approval",
    "definition_name_problems",
    "format_warnings",
    "is_protected",
    "validate_definition",
    "validate_definition_status",
]
