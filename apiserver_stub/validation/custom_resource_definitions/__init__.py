"""Validation of CustomResourceDefinitions."""

from apiserver_stub.validation.custom_resource_definitions.definition import (
    definition_name_problems,
    validate_definition,
    validate_definition_status,
)

__all__ = ["definition_name_problems", "validate_definition", "validate_definition_status"]
