"""Pod templates: the rules that the kinds with a template share, and the kind PodTemplate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver_stub.apimachinery.label_selectors import format_labels, format_selector
from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.apimachinery.status import Cause
from apiserver_stub.defaulting.workloads import POD_TEMPLATE
from apiserver_stub.kinds.columns import NAME
from apiserver_stub.kinds.disabled_fields import drop_from_pod
from apiserver_stub.kinds.pods import pod_options
from apiserver_stub.kinds.registry import Column, Resource, Strategy
from apiserver_stub.validation.metadata import MetadataRules, repetitions
from apiserver_stub.validation.pod_annotations import keys
from apiserver_stub.validation.pod_exemptions import options_for_update
from apiserver_stub.validation.pod_options import PodOptions
from apiserver_stub.validation.pod_templates import validate_pod_template
from apiserver_stub.validation.pod_warnings import pod_warnings
from nodeagent.base.names import label_problems

if TYPE_CHECKING:
    from apiserver_stub.kinds.settings import KindSettings

_NAME_WARNING = (
    "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is "
    "recommended: "
)


class PodTemplateRules:
    """Rules of the pod template of a kind; templates are those at *path* in its objects."""

    def __init__(self, settings: KindSettings, *path: str) -> None:
        self._path, self._gates, self._identity = path or ("spec", "template"), settings.gates, settings.identity
        self._release = settings.compatibility_version
        self._apparmor_prefix = keys(settings.identity).apparmor_prefix
        self._options = pod_options(
            settings.gates,
            settings.identity,
            allow_privileged=settings.allow_privileged,
            release=settings.compatibility_version,
        )

    def drop_disabled(self, new: Object, old: Object | None = None) -> None:
        """Drop the fields of disabled features from the template of *new*, unless that of *old* uses them."""
        template, before = dig(new, self._path), dig(old, self._path)
        if template is not None:
            drop_from_pod(self._gates, self._apparmor_prefix, template, before)

    def options(self, old: Object | None = None) -> PodOptions:
        """Return the validation options for a new object, or for an update of *old*."""
        template = dig(old, self._path)
        if not template:
            return self._options
        return options_for_update(self._options, template.get("metadata") or {}, template.get("spec") or {})

    def warnings(self, new: Object, old: Object | None, *, in_pod_names: bool = False) -> list[str]:
        """Return the warnings about *new*; updates that do not change the generation have none.

        :param in_pod_names: the name of the object is the prefix of the names of its pods.
        """
        if old is not None and new["metadata"].get("generation") == old["metadata"].get("generation"):
            return []
        warnings = []
        if in_pod_names and old is None and (problems := label_problems(new["metadata"].get("name") or "")):
            warnings.append(f"{_NAME_WARNING}[{' '.join(problems)}]")
        template = dig(new, self._path) or {}
        metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
        return warnings + pod_warnings(metadata, spec, self._identity, ".".join(self._path), self._release)


class PodTemplateStrategy(Strategy):
    """PodTemplates; the generation counts the changes of the template."""

    counted = ("template",)

    def __init__(self, settings: KindSettings) -> None:
        self._template = PodTemplateRules(settings, "template")

    def default(self, new: Object) -> None:
        POD_TEMPLATE.apply(new.setdefault("template", {}))

    def prepare_create(self, new: Object) -> None:
        self._template.drop_disabled(new)

    def validate(self, new: Object) -> list[Cause]:
        return validate_pod_template(new.get("template") or {}, "template", self._template.options())

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        self._template.drop_disabled(new, old)

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        return validate_pod_template(new.get("template") or {}, "template", self._template.options(old))

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        return self._template.warnings(new, old)


def container_columns(*path: str) -> tuple[Column, ...]:
    """Return the wide columns with the containers and images of the template at *path*."""
    containers = (*path, "spec", "containers")

    def joined(title: str, name: str) -> Column:
        def cell(obj: Object) -> str:
            return ",".join(item.get(name) or "" for item in dig(obj, containers) or ())

        return Column(title, cell, wide=True, description=f"{title} of the pod template.")

    return joined("Containers", "name"), joined("Images", "image")


def selector_column(*path: str) -> Column:
    """Return the wide column with the label selector at *path*."""
    return Column("Selector", lambda obj: format_selector(dig(obj, path)) or "<none>", wide=True)


def resources(settings: KindSettings) -> list[Resource]:
    names, images = container_columns("template")
    return [
        Resource(
            "",
            "v1",
            "PodTemplate",
            "podtemplates",
            metadata_rules=MetadataRules(whole=repetitions(settings.compatibility_version) - 1),
            strategy=PodTemplateStrategy(settings),
            returns_deleted=True,
            columns=(
                NAME,
                Column(names.name, names.cell, description=names.description),
                Column(images.name, images.cell, description=images.description),
                Column("Pod Labels", _labels),
            ),
        )
    ]


def _labels(obj: Object) -> str:
    return format_labels(dig(obj, ("template", "metadata", "labels"))) or "<none>"
