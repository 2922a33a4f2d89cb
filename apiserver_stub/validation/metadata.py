"""Validation of object metadata: names, labels, annotations, owner references, finalizers, field managers.

kube-apiserver validates the metadata of an update for every kind, and the rules of most kinds validate it again. The
causes of one mistake are therefore repeated, as often as :class:`MetadataRules` states.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import (
    Cause,
    forbidden_value,
    invalid_each,
    invalid_value,
    quote,
    required,
    too_long,
)
from apiserver_stub.validation.labels import validate_labels
from apiserver_stub.validation.names import path_problems, prefix_problems, standard_finalizer_problems
from nodeagent.base.names import qualified_name_problems, subdomain_problems
from nodeagent.base.release import Release
from nodeagent.base.structs import Struct

ANNOTATIONS_LIMIT_BYTES = 256 << 10
_REPORTED_ONCE = Release(1, 36)
_MANAGER_LIMIT_BYTES = 128
_SUBRESOURCE_LIMIT_BYTES = 256
_ORPHAN, _FOREGROUND = "orphan", "foregroundDeletion"
_EVENT = ("v1", "Event")
_OWNER_TEXTS = (("APIVersion", "apiVersion"), ("Kind", "kind"), ("Name", "name"), ("UID", "uid"))
_OWNER_FLAGS = (("Controller", "controller"), ("BlockOwnerDeletion", "blockOwnerDeletion"))
_IMMUTABLE = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")

Problems = Callable[[str], list[str]]


class MetadataRules(Struct, frozen=True):
    """The metadata rules that a kind has beyond those for the updates of every kind."""

    whole: int = 1
    """Number of times that an update applies the rules for new objects."""
    changes: int = 1
    """Number of times that it applies the rules for changes."""
    standard_finalizers: bool = True
    """Finalizers without a prefix are those of Kubernetes."""
    generated_names: bool = True
    """The rule for names applies to ``generateName`` of a new object, too."""


def repetitions(release: Release) -> int:
    """Return how often updates of some kinds report each error of the new object: twice before release 1.36."""
    return 1 if release >= _REPORTED_ONCE else 2


KIND_RULES = MetadataRules()
STATUS_RULES = MetadataRules(whole=0)


def validate_metadata(
    metadata: Object, problems_of: Problems = subdomain_problems, rules: MetadataRules = KIND_RULES
) -> list[Cause]:
    """Return what is wrong with the metadata of a new object; *problems_of* validates names."""
    names = _validate_names(metadata, problems_of, generated=rules.generated_names)
    causes = names + _validate_generation(metadata) + _validate_shared(metadata)
    if finalizers := metadata.get("finalizers"):
        causes += _validate_finalizers(finalizers)
        if rules.standard_finalizers:
            causes += _validate_standard(finalizers)
    return causes


def validate_metadata_update(
    new: Object, old: Object, problems_of: Problems = subdomain_problems, rules: MetadataRules = KIND_RULES
) -> list[Cause]:
    """Return what is wrong with the metadata of an update."""
    finalizers = new.get("finalizers") or []
    shared = _validate_shared(new)
    whole = _validate_generation(new) + shared + _validate_finalizers(finalizers)
    changes = _validate_changes(new, old) + shared
    standard = _validate_standard(finalizers) if rules.standard_finalizers else []
    causes = _validate_names(new, path_problems) + whole + changes
    causes += (changes + standard) * rules.changes
    if rules.whole:
        named = new if rules.generated_names else {"name": new.get("name")}
        causes += (_validate_names(named, problems_of) + whole + standard) * rules.whole
    return causes


def _validate_names(metadata: Object, problems_of: Problems, *, generated: bool = True) -> list[Cause]:
    name, causes = metadata.get("name"), []
    if generate := metadata.get("generateName"):
        rule = problems_of if generated else path_problems
        causes = invalid_each("metadata.generateName", generate, prefix_problems(generate, rule))
    if not name:
        return [*causes, required("metadata.name", "name or generateName is required")]
    return causes + invalid_each("metadata.name", name, problems_of(name))


def _validate_generation(metadata: Object) -> list[Cause]:
    generation = metadata.get("generation") or 0
    if generation >= 0:
        return []
    return [invalid_value("metadata.generation", generation, "must be greater than or equal to 0")]


def _validate_changes(new: Object, old: Object) -> list[Cause]:
    causes: list[Cause] = []
    if "deletionTimestamp" in old:
        causes += _validate_no_new_finalizers(new.get("finalizers") or [], old.get("finalizers") or [])
    for name in _IMMUTABLE:
        if (value := new.get(name)) != old.get(name):
            text = f"Invalid value: {_shown(name, value)}: field is immutable"
            causes.append(Cause("FieldValueInvalid", text, f"metadata.{name}"))
    return causes


def _validate_shared(metadata: Object) -> list[Cause]:
    """Return what is wrong with the fields that the rules for new objects and those for changes have in common."""
    causes: list[Cause] = []
    if labels := metadata.get("labels"):
        causes += validate_labels(labels, "metadata.labels")
    if annotations := metadata.get("annotations"):
        causes += validate_annotations(annotations, "metadata.annotations")
    if owners := metadata.get("ownerReferences"):
        causes += _validate_owners(owners)
    for index, entry in enumerate(metadata.get("managedFields") or ()):
        causes += _validate_entry(entry, index)
    return causes


def validate_annotations(annotations: Any, field: str) -> list[Cause]:
    """Return what is wrong with a map of annotations."""
    causes, size = [], 0
    for key, value in (annotations or {}).items():
        causes += [invalid_value(field, key, text) for text in qualified_name_problems(key.lower())]
        size += len(key.encode()) + len(value.encode())
    if size > ANNOTATIONS_LIMIT_BYTES:
        causes.append(too_long(field, ANNOTATIONS_LIMIT_BYTES))
    return causes


def _validate_finalizers(finalizers: list[str]) -> list[Cause]:
    field = "metadata.finalizers"
    causes = [invalid_value(field, name, problem) for name in finalizers for problem in qualified_name_problems(name)]
    if _ORPHAN in finalizers and _FOREGROUND in finalizers:
        causes.append(invalid_value(field, finalizers, f"finalizer {_ORPHAN} and {_FOREGROUND} cannot be both set"))
    return causes


def _validate_standard(finalizers: list[str] | None) -> list[Cause]:
    return [
        invalid_value(f"metadata.finalizers[{index}]", name, problem)
        for index, name in enumerate(finalizers or ())
        for problem in standard_finalizer_problems(name)
    ]


def _validate_no_new_finalizers(new: list[str], old: list[str]) -> list[Cause]:
    added = sorted(set(new) - set(old))
    if not added:
        return []
    detail = "no new finalizers can be added if the object is being deleted, found new finalizers "
    return [forbidden_value("metadata.finalizers", detail + quote(added))]


def _validate_owners(owners: list[Object]) -> list[Cause]:
    field, causes, controller = "metadata.ownerReferences", [], ""
    for owner in owners:
        group, version = _group_version(owner.get("apiVersion") or "")
        kind, name = owner.get("kind") or "", owner.get("name") or ""
        if not version:
            text = "version must not be empty"
            causes.append(invalid_value(f"{field}.apiVersion", owner.get("apiVersion") or "", text))
        for member in ("kind", "name", "uid"):
            if not owner.get(member):
                causes.append(invalid_value(f"{field}.{member}", "", f"{member} must not be empty"))
        if not group and (version, kind) == _EVENT:
            text = f"Invalid value: {_go_owner(owner)}: /v1, Kind=Event is disallowed from being an owner"
            causes.append(Cause("FieldValueInvalid", text, field))
        if owner.get("controller"):
            if controller:
                shown = f"[]v1.OwnerReference{{{', '.join(map(_go_owner, owners))}}}"
                text = 'Only one reference can have Controller set to true. Found "true" in references for'
                text = f"Invalid value: {shown}: {text} {controller} and {kind}/{name}"
                causes.append(Cause("FieldValueInvalid", text, field))
            else:
                controller = f"{kind}/{name}"
    return causes


def _group_version(text: str) -> tuple[str, str]:
    group, _, version = text.rpartition("/")
    return (group, version) if "/" not in group else ("", "")


def _go_owner(owner: Object) -> str:
    """Return *owner* as Go prints the structure, with stand-ins for the addresses of values."""
    texts = [f"{go}:{quote(owner.get(name) or '')}" for go, name in _OWNER_TEXTS]
    flags = [f"{go}:(*bool)({'0xc000000000' if name in owner else 'nil'})" for go, name in _OWNER_FLAGS]
    return f"v1.OwnerReference{{{', '.join(texts + flags)}}}"


def validate_field_manager(manager: str, field: str) -> list[Cause]:
    """Return what is wrong with the name of a field manager."""
    causes = [too_long(field, _MANAGER_LIMIT_BYTES)] if len(manager.encode()) > _MANAGER_LIMIT_BYTES else []
    if not manager.isprintable():
        position = 0
        for character in manager:
            if not character.isprintable():
                detail = f"invalid character U+{ord(character):04X} (at position {position})"
                causes.append(invalid_value(field, manager, detail))
            position += len(character.encode())
    return causes


def _validate_entry(entry: Object, index: int) -> list[Cause]:
    causes = validate_field_manager(entry.get("manager") or "", f"metadata.managedFields[{index}].manager")
    if len((entry.get("subresource") or "").encode()) > _SUBRESOURCE_LIMIT_BYTES:
        causes.append(too_long(f"metadata.managedFields[{index}].subresource", _SUBRESOURCE_LIMIT_BYTES))
    return causes


def _shown(name: str, value: Any) -> str:
    if name == "deletionTimestamp" and value:
        return str(value).replace("T", " ").replace("Z", " +0000 UTC")
    return quote(value)
