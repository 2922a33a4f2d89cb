"""DeviceTaintRules: taints that administrators add to the devices of drivers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.apimachinery.status import Cause
from apiserver_stub.defaulting.devices import TAINT_RULE
from apiserver_stub.kinds.columns import AGE, NAME, at
from apiserver_stub.kinds.registry import Column, Resource, Strategy, Subresource
from apiserver_stub.kinds.tables import since
from apiserver_stub.validation.device_taint_rules import validate_taint_rule, validate_taint_rule_status
from apiserver_stub.validation.metadata import MetadataRules

if TYPE_CHECKING:
    from nodeagent.base.identity import Identity

VERSION = "v1beta2"
_STATUS_KEEPS = ("labels", "annotations", "finalizers", "ownerReferences", "deletionTimestamp", "selfLink")


class DeviceTaintRuleStrategy(Strategy):
    """A new effect is a new taint: its time is set unless the client has changed it."""

    counted, status_keeps = ("spec",), _STATUS_KEEPS

    def default(self, new: Object) -> None:
        TAINT_RULE.apply(new)

    def prepare_create(self, new: Object) -> None:
        new["status"] = {}

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        super().prepare_update(new, old, subresource)
        taint, before = dig(new, ("spec", "taint")) or {}, dig(old, ("spec", "taint")) or {}
        if taint.get("effect") != before.get("effect") and taint.get("timeAdded") == before.get("timeAdded"):
            taint["timeAdded"] = objects.now()

    def validate(self, new: Object) -> list[Cause]:
        return validate_taint_rule(new.get("spec") or {})

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        if subresource:
            return validate_taint_rule_status(new.get("status") or {})
        return validate_taint_rule(new.get("spec") or {}, old.get("spec") or {})


def taint_rules(identity: Identity) -> Resource:
    return Resource(
        identity.group("resource"),
        VERSION,
        "DeviceTaintRule",
        "devicetaintrules",
        namespaced=False,
        strategy=DeviceTaintRuleStrategy(),
        metadata_rules=MetadataRules(whole=0),
        subresource_rules=MetadataRules(whole=0),
        subresources=(Subresource("status"),),
        reset_fields={"": ("status",), "status": ("metadata", "spec")},
        returns_deleted=True,
        columns=(
            NAME,
            at("Key", "spec.taint.key", default=""),
            at("Value", "spec.taint.value", default=""),
            at("Effect", "spec.taint.effect", default=""),
            Column("TimeAdded", _time_added, description="Time since the taint was added."),
            AGE,
        ),
    )


def _time_added(rule: Object) -> str:
    time = dig(rule, ("spec", "taint", "timeAdded"))
    return "" if time is None else since(time)
