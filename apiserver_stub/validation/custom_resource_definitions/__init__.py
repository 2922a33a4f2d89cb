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

__all__ = [
    "APPROVED",
    "BYPASSED",
    "MISSING",
    "approval",
    "definition_name_problems",
    "is_protected",
    "validate_definition",
    "validate_definition_status",
]
