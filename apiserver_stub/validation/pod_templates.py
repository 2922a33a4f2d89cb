"""Validation of pod templates, and of the selectors of the kinds that have one."""

from __future__ import annotations

from apiserver_stub.apimachinery.label_selectors import read_selector
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, forbidden_value, invalid_value, not_supported, required
from apiserver_stub.validation.apparmor import validate_apparmor_match
from apiserver_stub.validation.labels import validate_labels, validate_selector
from apiserver_stub.validation.metadata import validate_annotations
from apiserver_stub.validation.pod_annotations import keys, validate_pod_annotations, validate_seccomp_match
from apiserver_stub.validation.pod_options import PodOptions
from apiserver_stub.validation.pod_spec import validate_pod_spec

NOT_NEGATIVE = "must be greater than or equal to 0"
_NO_MATCH = "`selector` does not match template `labels`"


def validate_pod_template(template: Object, field: str, options: PodOptions) -> list[Cause]:
    """Return the errors in the pod template at *field*."""
    spec = template.get("spec") or {}
    causes = validate_template_metadata(template, field, options)
    causes += validate_pod_spec(spec, "", f"{field}.spec", options)
    if annotations := (template.get("metadata") or {}).get("annotations"):
        causes += validate_seccomp_match(annotations, spec, f"{field}.spec", options.identity)
        if "AppArmorFields" in options.features:
            prefix = keys(options.identity).apparmor_prefix
            causes += validate_apparmor_match(annotations, spec, f"{field}.spec", prefix)
    if spec.get("ephemeralContainers"):
        detail = "ephemeral containers not allowed in pod template"
        causes.append(forbidden_value(f"{field}.spec.ephemeralContainers", detail))
    return causes


def validate_template_metadata(template: Object, field: str, options: PodOptions) -> list[Cause]:
    """Return the errors in the labels and annotations of a pod template."""
    metadata = template.get("metadata") or {}
    causes = validate_labels(metadata.get("labels"), f"{field}.labels")
    if annotations := metadata.get("annotations"):
        causes += validate_annotations(annotations, f"{field}.annotations")
        causes += validate_pod_annotations(annotations, template.get("spec") or {}, f"{field}.annotations", options)
    return causes


def validate_template_selector(
    selector: Object | None, field: str, empty: str, detail: str = "invalid label selector"
) -> tuple[list[Cause], bool]:
    """Return the errors in a required selector, and whether it can be compared with labels.

    :param empty: error of a selector without requirements.
    :param detail: second error of an invalid selector.
    """
    if selector is None:
        return [required(field)], True
    causes = validate_selector(selector, field)
    usable = not causes
    if not (selector.get("matchLabels") or selector.get("matchExpressions")):
        causes.append(invalid_value(field, selector, empty))
    if not usable:
        causes.append(invalid_value(field, selector, detail))
    return causes, usable


def validate_match(selector: Object | None, template: Object, field: str) -> list[Cause]:
    """Return the error of a *selector* that does not select the pods of *template*; an empty one is not checked."""
    labels = (template.get("metadata") or {}).get("labels") or {}
    if selector is not None and (not read_selector(selector) or read_selector(selector).matches(labels)):
        return []
    return [invalid_value(f"{field}.metadata.labels", labels, _NO_MATCH)]


def validate_always_restarted(template: Object, field: str, owner: str) -> list[Cause]:
    """Return the errors of settings of a template whose pods must run until they are deleted."""
    spec, causes = template.get("spec") or {}, []
    if (policy := spec.get("restartPolicy") or "") != "Always":
        causes.append(not_supported(f"{field}.spec.restartPolicy", policy, ("Always",)))
    if spec.get("activeDeadlineSeconds") is not None:
        detail = f"activeDeadlineSeconds in {owner} is not Supported"
        causes.append(forbidden_value(f"{field}.spec.activeDeadlineSeconds", detail))
    return causes


def validate_not_negative(obj: Object, names: tuple[str, ...], field: str) -> list[Cause]:
    """Return the errors of the fields *names* of *obj* with negative values."""
    return [
        invalid_value(f"{field}.{name}", value, NOT_NEGATIVE) for name in names if (value := obj.get(name) or 0) < 0
    ]


def validate_at_most(status: Object, names: tuple[str, ...], limit: str, field: str, detail: str) -> list[Cause]:
    """Return the errors of the fields *names* of *status* that exceed its field *limit*."""
    highest = status.get(limit) or 0
    return [
        invalid_value(f"{field}.{name}", value, detail) for name in names if (value := status.get(name) or 0) > highest
    ]


def validate_collisions(new: Object, old: Object, field: str) -> list[Cause]:
    """Return the error of a decremented or removed number of hash collisions; *new* and *old* are statuses."""
    before, after = old.get("collisionCount"), new.get("collisionCount")
    if before is None or (after is not None and after >= before):
        return []
    return [invalid_value(f"{field}.collisionCount", after or 0, "cannot be decremented")]


def validate_immutable(new: Object, old: Object, name: str) -> list[Cause]:
    """Return the error of a changed field *name* of the spec."""
    value = new["spec"].get(name)
    return [] if value == old["spec"].get(name) else [invalid_value(f"spec.{name}", value, "field is immutable")]
