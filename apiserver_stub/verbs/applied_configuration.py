"""Configurations in the bodies of server-side apply requests: decoding, validation and conversion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apiserver_stub.apimachinery.go_format import type_name
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import ApiError, bad_request
from apiserver_stub.schema.field_validation import SchemaMismatch
from apiserver_stub.schema.typed.identity import full_kind, identity_of, kind_of
from apiserver_stub.schema.typed.validation import summary, validate
from apiserver_stub.verbs.body import check_types
from nodeagent.base import yamlsafe
from nodeagent.base.structs import Struct

if TYPE_CHECKING:
    from apiserver_stub.apimachinery.request import Request
    from apiserver_stub.kinds.registry import Resource
    from apiserver_stub.schema.kind_schema import KindSchema
    from apiserver_stub.schema.shapes import Shape

_INTEGERS = 1 << 63


class Configuration(Struct, frozen=True):
    """A configuration as the client sent it."""

    obj: Object
    repeats: tuple[yamlsafe.Repeat, ...]
    """Fields that are set twice; the last value takes effect."""

    def convert(self, merged: Object, schema: KindSchema | None) -> None:
        """Convert the values of *merged*, which include those of the configuration, to the types of its kind.

        :raises ApiError: 500, a value cannot be converted.
        """
        try:
            check_types(merged, schema, converts=True)
        except SchemaMismatch as error:
            problem = f"unable to convert unstructured object to {kind_of(self.obj)}: {error.converting}"
            text = f"failed to convert new object ({identity_of(self.obj)}) to proper version: {problem}"
            raise ApiError(500, "", text) from error

    def report(self, request: Request) -> None:
        """Report fields that are set twice, as ``fieldValidation`` of *request* requires.

        :raises ApiError: 400, there are such fields and validation is strict.
        """
        lines = [f'line {repeat.line}: key "{repeat.key}" already set in map' for repeat in self.repeats]
        mode = request.query.get("fieldValidation")
        if not lines or mode == "Ignore":
            return
        if mode == "Strict":
            text = "\n  ".join(("error converting YAML to JSON: yaml: unmarshal errors:", *lines))
            raise bad_request(f"error strict decoding YAML: {text}")
        request.warnings += lines


def read_configuration(request: Request, resource: Resource, shape: Shape) -> Configuration:
    """Return the valid configuration in the body of *request*.

    :raises ApiError: 400 or 500, the body is not a valid configuration of this kind.
    """
    configuration = _decode(request)
    config = configuration.obj
    if (kind := kind_of(config)) != full_kind(resource.api_version, resource.kind):
        raise bad_request(f"invalid object type: {kind}")
    metadata = config.get("metadata")
    if isinstance(metadata, dict) and isinstance(metadata.get("managedFields"), list):
        raise bad_request("metadata.managedFields must be nil")
    if problems := validate(config, shape):
        raise ApiError(500, "", f"failed to create typed patch object ({identity_of(config)}): {summary(problems)}")
    return configuration


def _decode(request: Request) -> Configuration:
    """Return the first document of the body.

    :raises ApiError: 400, the body is not valid YAML, or the document is not an object.
    """
    repeats: list[yamlsafe.Repeat] = []
    try:
        value = yamlsafe.load_first(request.body, repeats=repeats)
    except yamlsafe.YamlError as error:
        raise bad_request(f"error decoding YAML: error converting YAML to JSON: yaml: {error}") from error
    config = _with_integers(value) if value is not None else {}
    if not isinstance(config, dict):
        problem = f"json: cannot unmarshal {type_name(config)} into Go value of type map[string]interface {{}}"
        raise bad_request(f"error decoding YAML: error unmarshaling JSON: while decoding JSON: {problem}")
    return Configuration(config, tuple(repeats))


def _with_integers(value: Any) -> Any:
    """Return *value* with integral numbers like ``1e3`` as integers, and numbers beyond 64 bits as floats."""
    if isinstance(value, dict):
        return {name: _with_integers(content) for name, content in value.items()}
    if isinstance(value, list):
        return [_with_integers(item) for item in value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() and -_INTEGERS <= value < _INTEGERS else value
    return value if -_INTEGERS <= value < _INTEGERS else float(value)
