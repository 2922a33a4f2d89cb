"""CustomResourceDefinitions: kinds that clients add to the server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause
from apiserver_stub.defaulting.custom_resource_definitions import set_defaults, set_status_defaults
from apiserver_stub.kinds.columns import CREATED_AT, NAME
from apiserver_stub.kinds.registry import Resource, Strategy, Subresource
from apiserver_stub.validation.custom_resource_definitions import (
    definition_name_problems,
    format_warnings,
    validate_definition,
    validate_definition_status,
)
from apiserver_stub.validation.metadata import MetadataRules
from nodeagent.base.release import Release

if TYPE_CHECKING:
    from apiserver_stub.kinds.settings import KindSettings

GROUP = "apiextensions"
_FORMAT_WARNINGS = Release(1, 34)
"""First release that warns about unrecognized formats."""
CLEANUP = "customresourcecleanup"
"""Finalizer, without its domain, that keeps a definition until its custom resources are deleted."""
PENDING = (
    "InstanceDeletionPending",
    "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",  # wording: ok
)


class DefinitionStrategy(Strategy):
    """CustomResourceDefinitions; a deleted one is kept until its custom resources are deleted."""

    counted = ("spec",)

    def __init__(
        self, finalizer: str, *, ratchets: bool = False, selects: bool = False, checks_formats: bool = False
    ) -> None:
        """Create the rules of definitions.

        :param ratchets: CEL rules may have an optional ``oldSelf``.
        :param selects: versions may have selectable fields.
        :param checks_formats: unrecognized formats cause warnings.
        """
        self._finalizer, self._ratchets, self._selects = finalizer, ratchets, selects
        self._checks_formats = checks_formats

    def default(self, new: Object) -> None:
        set_defaults(new)

    def default_status(self, new: Object) -> None:
        set_status_defaults(new)

    def prepare_create(self, new: Object) -> None:
        new["status"] = {"conditions": None, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": None}
        _note_stored_version(new)
        self._drop_disabled(new, None)

    def _drop_disabled(self, new: Object, old: Object | None) -> None:
        """Remove fields whose feature is disabled, unless the stored definition contains them."""
        before = (old or {}).get("spec", {}).get("versions") or ()
        if not self._selects and not any(version.get("selectableFields") for version in before):
            for version in new["spec"].get("versions") or ():
                version.pop("selectableFields", None)
        if not self._ratchets and not any("optionalOldSelf" in rule for rule in _rules_in((old or {}).get("spec"))):
            for rule in _rules_in(new.get("spec")):
                rule.pop("optionalOldSelf", None)

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        super().prepare_update(new, old, subresource)
        if not subresource:
            new["status"] = dict(new["status"])
            _note_stored_version(new)
            self._drop_disabled(new, old)

    def validate(self, new: Object) -> list[Cause]:
        return validate_definition(new)

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        return validate_definition_status(new) if subresource else validate_definition(new, old)

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        return format_warnings(new, old) if self._checks_formats else []

    def lingers(self, obj: Object) -> bool:
        return "deletionTimestamp" not in obj["metadata"]

    def prepare_delete(self, obj: Object) -> None:
        finalizers = obj["metadata"].setdefault("finalizers", [])
        if self._finalizer not in finalizers:
            finalizers.append(self._finalizer)
            set_condition(obj, "Terminating", "True", *PENDING)


def cleanup_finalizer(group: str) -> str:
    """Return the finalizer of definitions in API group *group*."""
    return f"{CLEANUP}.{group}"


def _note_stored_version(definition: Object) -> None:
    """Add the storage version to the versions in which custom resources may be stored."""
    stored = definition["status"].get("storedVersions") or []
    name = storage_version(definition)
    if name is not None and name not in stored:
        definition["status"]["storedVersions"] = [*stored, name]


def storage_version(definition: Object) -> str | None:
    """Return the version in which custom resources of *definition* are stored, ``None`` if there is none."""
    versions = definition["spec"].get("versions") or ()
    return next((str(version["name"]) for version in versions if version.get("storage")), None)


def condition(definition: Object, type_: str) -> Object:
    """Return the condition *type_* of *definition*, empty if there is none."""
    conditions = (definition.get("status") or {}).get("conditions") or ()
    return next((item for item in conditions if item.get("type") == type_), {})


def is_true(definition: Object, type_: str) -> bool:
    """Return whether the condition *type_* of *definition* is true."""
    return condition(definition, type_).get("status") == "True"


def set_condition(definition: Object, type_: str, status: str, reason: str, message: str) -> None:
    """Set a condition of *definition*; the time of its transition changes only with its status."""
    before = condition(definition, type_)
    time = before.get("lastTransitionTime") if before.get("status") == status else objects.now()
    new = {"type": type_, "status": status, "lastTransitionTime": time, "reason": reason, "message": message}
    fields = definition.setdefault("status", {})
    conditions = fields.get("conditions") or []
    fields["conditions"] = [new if item is before else item for item in conditions] if before else [*conditions, new]


def _rules_in(part: Any) -> Iterator[Object]:
    """Yield the CEL rules in a part of a definition."""
    if isinstance(part, list):
        for item in part:
            yield from _rules_in(item)
    elif isinstance(part, dict):
        for name, content in part.items():
            if name == "x-kubernetes-validations":
                yield from (rule for rule in content or () if isinstance(rule, dict))
            elif name not in ("default", "enum", "example"):
                yield from _rules_in(content)


def resources(settings: KindSettings) -> list[Resource]:
    group = settings.identity.group(GROUP)
    return [
        Resource(
            group,
            "v1",
            "CustomResourceDefinition",
            "customresourcedefinitions",
            namespaced=False,
            short_names=("crd", "crds"),
            categories=("api-extensions",),
            storage_key=f"{group}/customresourcedefinitions",
            hashed_version="v1beta1",
            strategy=DefinitionStrategy(
                cleanup_finalizer(group),
                ratchets=settings.gates.enabled("CRDValidationRatcheting"),
                selects=settings.gates.enabled("CustomResourceFieldSelectors"),
                checks_formats=settings.compatibility_version >= _FORMAT_WARNINGS,
            ),
            subresources=(Subresource("status"),),
            columns=(NAME, CREATED_AT),
            unconditional_update=False,
            object_name_problems=definition_name_problems,
            metadata_rules=MetadataRules(whole=0, standard_finalizers=False),
            subresource_rules=MetadataRules(whole=0, standard_finalizers=False),
            reset_fields={"status": ("spec", "metadata")},
        )
    ]
