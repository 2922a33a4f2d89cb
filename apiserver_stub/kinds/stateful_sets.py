"""StatefulSets, DaemonSets and the ControllerRevisions with the history of their templates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver_stub.apimachinery.label_selectors import format_labels
from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.apimachinery.status import Cause, invalid_value, required
from apiserver_stub.defaulting.workloads import DAEMON_SET, stateful_set_defaults
from apiserver_stub.kinds.columns import AGE, NAME, at
from apiserver_stub.kinds.deployments import ready_of_desired
from apiserver_stub.kinds.pod_templates import PodTemplateRules, container_columns, selector_column
from apiserver_stub.kinds.registry import SCALE, Column, Resource, ScalePaths, Strategy, Subresource
from apiserver_stub.validation.claim_spec import claim_spec_warnings
from apiserver_stub.validation.daemon_sets import (
    has_invalid_selector,
    validate_daemon_set,
    validate_daemon_set_status,
)
from apiserver_stub.validation.metadata import MetadataRules, repetitions
from apiserver_stub.validation.pod_templates import NOT_NEGATIVE, validate_immutable
from apiserver_stub.validation.stateful_sets import (
    validate_stateful_set,
    validate_stateful_set_status,
    validate_stateful_set_update,
)
from nodeagent.base.gointeger import parse_digits
from nodeagent.base.names import label_problems

if TYPE_CHECKING:
    from apiserver_stub.kinds.settings import KindSettings

STATEFUL_SETS, DAEMON_SETS, REVISIONS = "apps/statefulsets", "apps/daemonsets", "apps/controllerrevisions"
"""Collections in the store."""


class StatefulSetStrategy(Strategy):
    """StatefulSets."""

    counted = ("spec",)

    def __init__(self, settings: KindSettings) -> None:
        self._template, self._gates = PodTemplateRules(settings), settings.gates
        self._defaults = stateful_set_defaults(
            max_unavailable=settings.gates.enabled("MaxUnavailableStatefulSet"),
            deletes_claims=self._is_enabled("StatefulSetAutoDeletePVC"),
        )

    def default(self, new: Object) -> None:
        self._defaults.apply(new)

    def prepare_create(self, new: Object) -> None:
        new["status"] = {"replicas": 0, "availableReplicas": 0}
        self._drop_disabled(new, {})

    def validate(self, new: Object) -> list[Cause]:
        return validate_stateful_set(new, self._template.options())

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        super().prepare_update(new, old, subresource)
        if subresource != "status":
            self._drop_disabled(new, old)

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        if subresource == "status":
            return validate_stateful_set_status(new, old)
        return validate_stateful_set_update(new, old, self._template.options(old))

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        warnings = self._template.warnings(new, old)
        for index, claim in enumerate(new["spec"].get("volumeClaimTemplates") or ()):
            warnings += claim_spec_warnings(claim.get("spec") or {}, f"spec.volumeClaimTemplates[{index}]")
        return warnings

    def _drop_disabled(self, new: Object, old: Object) -> None:
        """Drop fields of disabled features from *new*, unless *old* uses them.

        spec: gate.MaxUnavailableStatefulSet, gate.StatefulSetAutoDeletePVC, gate.StatefulSetStartOrdinal
        """
        spec, before = new["spec"], old.get("spec") or {}
        for gate, name in (
            ("StatefulSetAutoDeletePVC", "persistentVolumeClaimRetentionPolicy"),
            ("StatefulSetStartOrdinal", "ordinals"),
        ):
            if not self._is_enabled(gate) and before.get(name) is None:
                spec.pop(name, None)
        path = ("updateStrategy", "rollingUpdate", "maxUnavailable")
        if not self._gates.enabled("MaxUnavailableStatefulSet") and dig(before, path) is None:
            (dig(spec, path[:-1]) or {}).pop(path[-1], None)
        self._template.drop_disabled(new, old)

    def _is_enabled(self, gate: str) -> bool:
        return not self._gates.exists(gate) or self._gates.enabled(gate)


class DaemonSetStrategy(Strategy):
    """DaemonSets."""

    counted = ("spec",)

    def __init__(self, settings: KindSettings) -> None:
        self._template = PodTemplateRules(settings)
        self._repetitions = repetitions(settings.compatibility_version)

    def default(self, new: Object) -> None:
        DAEMON_SET.apply(new)

    def prepare_create(self, new: Object) -> None:
        new["status"] = dict.fromkeys(
            ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"), 0
        )
        _set_template_generation(new, 1)
        self._template.drop_disabled(new)

    def validate(self, new: Object) -> list[Cause]:
        return validate_daemon_set(new, self._template.options())

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        super().prepare_update(new, old, subresource)
        if subresource != "status":
            self._template.drop_disabled(new, old)
            changed = new["spec"].get("template") != old["spec"].get("template")
            _set_template_generation(new, _template_generation(old) + changed)

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        if subresource == "status":
            return validate_daemon_set_status(new, old)
        any_values = has_invalid_selector(old)
        causes = validate_daemon_set(new, self._template.options(old), any_values=any_values)
        return causes * self._repetitions + validate_immutable(new, old, "selector")

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        return self._template.warnings(new, old)


_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
"""Annotation with the number of changes of the template, which upstream stores as a field of an older version."""


def _template_generation(obj: Object) -> int:
    text = (obj["metadata"].get("annotations") or {}).get(_TEMPLATE_GENERATION) or ""
    return parse_digits(text) or 0


def _set_template_generation(obj: Object, generation: int) -> None:
    metadata = obj["metadata"]
    metadata["annotations"] = {**(metadata.get("annotations") or {}), _TEMPLATE_GENERATION: str(generation)}


class ControllerRevisionStrategy(Strategy):
    """ControllerRevisions, whose data is immutable."""

    def validate(self, new: Object) -> list[Cause]:
        causes = [] if new.get("data") is not None else [required("data", "data is mandatory")]
        if (revision := new.get("revision") or 0) < 0:
            causes.append(invalid_value("revision", revision, NOT_NEGATIVE))
        return causes

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        causes = self.validate(new)
        if new.get("data") != old.get("data"):
            causes.append(invalid_value("data", new.get("data"), "field is immutable"))
        return causes


def resources(settings: KindSettings) -> list[Resource]:
    template = ("spec", "template")
    return [
        Resource(
            "apps",
            "v1",
            "StatefulSet",
            "statefulsets",
            short_names=("sts",),
            categories=("all",),
            storage=STATEFUL_SETS,
            name_problems=label_problems,
            metadata_rules=MetadataRules(whole=0),
            strategy=StatefulSetStrategy(settings),
            subresources=(SCALE, Subresource("status")),
            scale=ScalePaths(),
            columns=(
                NAME,
                Column("Ready", ready_of_desired, description="Number of ready pods and of desired pods."),
                AGE,
                *container_columns(*template),
            ),
        ),
        Resource(
            "apps",
            "v1",
            "DaemonSet",
            "daemonsets",
            short_names=("ds",),
            categories=("all",),
            storage=DAEMON_SETS,
            metadata_rules=MetadataRules(whole=repetitions(settings.compatibility_version) - 1),
            strategy=DaemonSetStrategy(settings),
            subresources=(Subresource("status"),),
            columns=(
                NAME,
                at("Desired", "status.desiredNumberScheduled", type="integer", default=0),
                at("Current", "status.currentNumberScheduled", type="integer", default=0),
                at("Ready", "status.numberReady", type="integer", default=0),
                at("Up-to-date", "status.updatedNumberScheduled", type="integer", default=0),
                at("Available", "status.numberAvailable", type="integer", default=0),
                Column("Node Selector", _node_selector, description="Labels of the nodes that run the pods."),
                AGE,
                *container_columns(*template),
                selector_column("spec", "selector"),
            ),
        ),
        Resource(
            "apps",
            "v1",
            "ControllerRevision",
            "controllerrevisions",
            storage=REVISIONS,
            strategy=ControllerRevisionStrategy(),
            columns=(
                NAME,
                Column("Controller", _controller, description="Object that the revision belongs to."),
                at("Revision", "revision", default=0),
                AGE,
            ),
        ),
    ]


def _node_selector(obj: Object) -> str:
    return format_labels(dig(obj, ("spec", "template", "spec", "nodeSelector"))) or "<none>"


def _controller(obj: Object) -> str:
    owners = obj["metadata"].get("ownerReferences") or ()
    owner = next((item for item in owners if item.get("controller")), None)
    if owner is None:
        return "<none>"
    group = owner["apiVersion"].rpartition("/")[0]
    kind = owner["kind"].lower()
    return f"{kind}.{group}/{owner['name']}" if group else f"{kind}/{owner['name']}"
