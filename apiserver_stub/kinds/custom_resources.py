"""Custom kinds: the resources that a CustomResourceDefinition declares, and their strategy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from apiserver_stub.apimachinery.objects import Object, dig, parse_time
from apiserver_stub.apimachinery.status import ApiError, Cause
from apiserver_stub.kinds.columns import AGE, NAME
from apiserver_stub.kinds.conversion import Converter, NoConversion
from apiserver_stub.kinds.custom_resource_definitions import is_true
from apiserver_stub.kinds.json_paths import text_of, values_at
from apiserver_stub.kinds.registry import SCALE, Column, Deprecation, Resource, ScalePaths, Strategy, Subresource
from apiserver_stub.kinds.tables import since
from apiserver_stub.kinds.version_order import version_order
from apiserver_stub.kinds.versions import with_version
from apiserver_stub.schema.structural.defaults import apply_defaults
from apiserver_stub.schema.structural.schema import StructuralSchema
from apiserver_stub.schema.structural.tree import Node, tree_of
from apiserver_stub.validation.custom_resources import CustomResourceRules, finalizer_warnings
from apiserver_stub.validation.metadata import MetadataRules
from apiserver_stub.validation.scale_fields import field_names

ConvertBy = Callable[[Object], Converter]

_RULES = MetadataRules(whole=0, standard_finalizers=False)


class CustomResourceStrategy(Strategy):
    """Custom resources of one version: their generation changes with every field except metadata and status."""

    counted = ("spec",)

    def __init__(self, tree: Node, rules: CustomResourceRules, *, has_status: bool, terminating: bool) -> None:
        self._tree, self._rules = tree, rules
        self._has_status, self._terminating = has_status, terminating

    def check_create(self) -> None:
        if self._terminating:
            text = "create not allowed while custom resource definition is terminating"
            raise ApiError(405, "MethodNotAllowed", text, {})

    def default(self, new: Object) -> None:
        apply_defaults(new, self._tree)

    def default_status(self, new: Object) -> None:
        apply_defaults(new, self._tree)

    def prepare_create(self, new: Object) -> None:
        if self._has_status:
            new.pop("status", None)

    def validate(self, new: Object) -> list[Cause]:
        return self._rules.validate(new)

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        if subresource == "status":
            status = {"status": new["status"]} if "status" in new else {}
            new.clear()
            new.update({name: value for name, value in old.items() if name != "status"} | status)
        elif self._has_status:
            super().prepare_update(new, old, subresource)

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        if subresource == "status":
            return self._rules.validate_status(new, old)
        return self._rules.validate(new, old)

    def is_counted(self, new: Object, old: Object) -> bool:
        ignored = {"metadata", "status"} if self._has_status else {"metadata"}
        names = (new.keys() | old.keys()) - ignored
        return any(new.get(name) != old.get(name) for name in names)

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        return finalizer_warnings(new, old)


def resources_of(
    definition: Object,
    *,
    ratchets: bool = False,
    names_status: bool = False,
    name_formats: bool = True,
    convert_by: ConvertBy | None = None,
) -> list[Resource]:
    """Return the resources of the served versions of *definition*; none until its names are accepted.

    :param ratchets: values that do not change need not be valid (spec: gate.CRDValidationRatcheting).
    :param names_status: errors in updates of the status name its fields as fields of the object.
    :param name_formats: the formats of names of objects are validated.
    :param convert_by: returns the converter for the ``webhook`` of a conversion.
    """
    if not (is_true(definition, "NamesAccepted") or is_true(definition, "Established")):
        return []
    versions = definition["spec"].get("versions") or ()
    converter = _converter(definition["spec"], convert_by) if len(versions) > 1 else None
    rules = partial(CustomResourceRules, ratchets=ratchets, names_status=names_status, name_formats=name_formats)
    return [_resource(definition, version, rules, converter) for version in versions if version.get("served")]


def _converter(spec: Object, convert_by: ConvertBy | None) -> Converter:
    conversion = spec.get("conversion") or {}
    if conversion.get("strategy") == "Webhook" and convert_by is not None:
        return convert_by(conversion.get("webhook") or {})
    return NoConversion()


def _resource(
    definition: Object,
    version: Object,
    rules_of: Callable[[Node, Object | None], CustomResourceRules],
    converter: Converter | None,
) -> Resource:
    spec, names = definition["spec"], definition["status"]["acceptedNames"]
    group, name, kind = spec["group"], version["name"], names["kind"]
    tree = tree_of((version.get("schema") or {}).get("openAPIV3Schema"))
    subresources = version.get("subresources") or {}
    has_status = subresources.get("status") is not None
    scale = subresources.get("scale")
    versions = spec.get("versions") or ()
    return Resource(
        group,
        name,
        kind,
        names["plural"],
        namespaced=spec.get("scope") == "Namespaced",
        singular=names.get("singular") or "",
        list_kind=names.get("listKind") or "",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        strategy=CustomResourceStrategy(
            tree, rules_of(tree, scale), has_status=has_status, terminating=is_true(definition, "Terminating")
        ),
        subresources=(
            *((Subresource("status"),) if has_status else ()),
            *((SCALE,) if scale is not None else ()),
        ),
        scale=None if scale is None else _scale_paths(scale),
        columns=_columns(version.get("additionalPrinterColumns")),
        schema=StructuralSchema(kind, tree, prunes=not spec.get("preserveUnknownFields")),
        # Resources may be stored in a version that the definition had before.
        convert=partial(with_version, group, name)
        if converter is None or isinstance(converter, NoConversion)
        else None,
        converter=converter,
        renamed_fields={f"{group}/{other['name']}": {} for other in versions if other is not version},
        storage_key=f"{group}/{names['plural']}",
        hashed_version=next((str(other["name"]) for other in versions if other.get("storage")), ""),
        unconditional_update=False,
        typed_items=True,
        fields={
            ".".join(names): names
            for names in (field_names(item["jsonPath"]) for item in version.get("selectableFields") or ())
        },
        patch_types=("application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"),
        deprecation=_deprecation(spec, version),
        reset_fields={"": ("status",) if has_status else (), "status": ("spec",)},
        metadata_rules=_RULES,
        subresource_rules=_RULES,
    )


def _scale_paths(scale: Object) -> ScalePaths:
    selector = field_names(scale.get("labelSelectorPath") or "")
    return ScalePaths(
        field_names(scale["specReplicasPath"]),
        field_names(scale["statusReplicasPath"]),
        lambda obj: (dig(obj, selector) or "") if selector else "",
    )


def _deprecation(spec: Object, version: Object) -> Deprecation | None:
    if not version.get("deprecated"):
        return None
    if (text := version.get("deprecationWarning")) is not None:
        return Deprecation("", warning=text)
    group, kind, own = spec["group"], spec["names"]["kind"], version_order(version["name"])
    text = f"{group}/{version['name']} {kind} is deprecated"
    newer = [
        other["name"]
        for other in spec["versions"]
        if other.get("served") and not other.get("deprecated") and version_order(other["name"]) < own
    ]
    if newer:
        text += f"; use {group}/{min(newer, key=version_order)} {kind}"
    return Deprecation("", warning=text)


# Columns


def _columns(declared: Sequence[Object] | None) -> tuple[Column, ...]:
    return (NAME, *(_column(item) for item in declared)) if declared else (NAME, AGE_COLUMN)


def _column(declared: Object) -> Column:
    path, type_ = declared["jsonPath"], declared.get("type") or ""
    return Column(
        declared["name"],
        partial(_cell, path, type_),
        type=type_,
        wide=bool(declared.get("priority")),
        priority=declared.get("priority") or 0,
        description=declared.get("description") or f"Custom resource definition column (in JSONPath format): {path}",
        format=declared.get("format") or "",
    )


def _cell(path: str, type_: str, obj: Object) -> Any:
    value = next(values_at(path, obj), None)
    if type_ == "string":
        return None if value is None else text_of(value)
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else None
    match type_:
        case "integer":
            return None if number is None else int(number)
        case "number":
            return None if number is None else float(number)
        case "boolean":
            return value if isinstance(value, bool) else None
        case "date":
            if not isinstance(value, str):
                return None
            return since(value) if parse_time(value) is not None else "<invalid>"
    return None


AGE_COLUMN = Column(
    "Age",
    partial(_cell, ".metadata.creationTimestamp", "date"),
    type="date",
    description=AGE.description,
)
