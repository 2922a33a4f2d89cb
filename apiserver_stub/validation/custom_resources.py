"""Validation of custom resources against the schema of their version."""

from __future__ import annotations

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, quote, required
from apiserver_stub.schema.structural.tree import Node
from apiserver_stub.validation.custom_resource_definitions.walk import schemas_in
from apiserver_stub.validation.embedded_resources import validate_embedded
from apiserver_stub.validation.list_types import validate_list_types
from apiserver_stub.validation.names import standard_finalizer_problems
from apiserver_stub.validation.scale_fields import validate_scale_spec, validate_scale_status
from apiserver_stub.validation.schema_rules.rules import SchemaRulesValidator
from apiserver_stub.validation.schema_values.causes import NO_FIELD
from apiserver_stub.validation.schema_values.correlation import UNKNOWN
from apiserver_stub.validation.schema_values.formats import is_object_name
from apiserver_stub.validation.schema_values.values import validator_of
from nodeagent.base.names import qualified_name_problems

_PREFERENCE = "prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers"


class CustomResourceRules:
    """Rules for the custom resources of one version."""

    def __init__(
        self,
        tree: Node,
        scale: Object | None = None,
        *,
        ratchets: bool = False,
        names_status: bool = False,
        name_formats: bool = True,
    ) -> None:
        """Validate by *tree*.

        :param ratchets: values that do not change need not be valid.
        :param names_status: errors in updates of the status name its fields as fields of the object.
        :param name_formats: the formats of names of objects are validated.
        """
        self._tree, self._scale = tree, scale
        self._rules = SchemaRulesValidator(tree, ratchets=ratchets)
        self._ratchets, self._names_status = ratchets, names_status
        schema = tree.source if name_formats else _without_name_formats(tree.source)
        self._validate_values = validator_of(schema)
        status = (schema.get("properties") or {}).get("status")
        self._validate_status_values = None if status is None else validator_of(status)

    def validate(self, new: Object, old: Object | None = None) -> list[Cause]:
        """Return the errors in *new*; *old* is the stored resource of an update."""
        found: list[Cause] = []
        self._validate_values(new, "", old if old is not None and self._ratchets else UNKNOWN, found)
        if self._scale is not None:
            found += validate_scale_spec(new, self._scale) + validate_scale_status(new, self._scale)
        found += validate_embedded(new, self._tree)
        if old is None or not validate_list_types(old, self._tree):
            found += validate_list_types(new, self._tree)
        blocking = found if new["metadata"].get("name") else [*found, required("metadata.name")]
        return found + self._rules.validate(new, old, blocking)

    def validate_status(self, new: Object, old: Object) -> list[Cause]:
        """Return the errors in the status of *new*."""
        found: list[Cause] = []
        if self._validate_status_values is not None and "status" in new:
            stored = old.get("status") if self._names_status and self._ratchets else UNKNOWN
            self._validate_status_values(new["status"], "", stored, found)
            if self._names_status:
                found = [Cause(cause.reason, cause.message, _in_status(cause.field)) for cause in found]
        if self._scale is not None:
            found += validate_scale_status(new, self._scale)
        if (errors := validate_list_types(new, self._tree)) and not validate_list_types(old, self._tree):
            found += errors
        return found + self._rules.validate(new, old, found)


def _without_name_formats(schema: Object) -> Object:
    result: Object = objects.clone(schema)
    for item in schemas_in(result):
        if is_object_name(item.get("format") or ""):
            del item["format"]
    return result


def _in_status(field: str) -> str:
    return "status" if field == NO_FIELD else f"status.{field}"


def finalizer_warnings(new: Object, old: Object | None) -> list[str]:
    """Return warnings about the finalizers that *new* has and *old* does not."""
    before = () if old is None else old["metadata"].get("finalizers") or ()
    added = sorted(set(new["metadata"].get("finalizers") or ()).difference(before))
    warnings = []
    for name in added:
        texts = [*qualified_name_problems(name), *([_PREFERENCE] if standard_finalizer_problems(name) else [])]
        warnings += [f"metadata.finalizers: {quote(name)}: {text}" for text in texts]
    return warnings
