"""Pods: defaults, rules, the graceful deletion protocol, binding."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from apiserver_stub import objects
from apiserver_stub.admission import Call
from apiserver_stub.nodes import pods as streams
from apiserver_stub.objects import Object, dig
from apiserver_stub.reply import Reply
from apiserver_stub.resources.columns import AGE, NAME, at
from apiserver_stub.resources.evictions import evict
from apiserver_stub.resources.gated_fields import drop_from_pod
from apiserver_stub.resources.pod_defaults import apply_defaults
from apiserver_stub.resources.pod_qos import qos_class
from apiserver_stub.resources.pod_rules import validate_pod, validate_pod_update
from apiserver_stub.resources.pod_status import ready_containers, restarts, shown_status
from apiserver_stub.resources.registry import PROXY_VERBS, Column, Resource, Strategy, Subresource
from apiserver_stub.status import Cause, conflict, done, forbidden_value, invalid, not_found, required
from apiserver_stub.store import Outcome, Put, Record

if TYPE_CHECKING:
    from apiserver_stub.app import ApiServer
    from apiserver_stub.options import Options
    from apiserver_stub.request import Request
    from nodeagent.base.gates import FeatureGates

_FINISHED = ("Succeeded", "Failed")


class PodStrategy(Strategy):
    """A pod belongs to its node once bound: it goes when the node says that it is gone."""

    graceful = True
    status_keeps = ("deletionTimestamp", "ownerReferences")

    def __init__(self, gates: FeatureGates, *, allow_privileged: bool = True) -> None:
        """With *allow_privileged* off no container gets all rights (spec: opt.allow-privileged)."""
        self._gates, self._allow_privileged = gates, allow_privileged

    def default(self, new: Object) -> None:
        apply_defaults(new)

    def prepare_create(self, new: Object) -> None:
        drop_from_pod(self._gates, new)
        new["status"] = {"phase": "Pending", "qosClass": qos_class(new["spec"])}
        if new["spec"].get("ephemeralContainers"):
            del new["spec"]["ephemeralContainers"]

    def validate(self, new: Object) -> list[Cause]:
        return validate_pod(new) + self._check_privileged(new)

    def _check_privileged(self, new: Object) -> list[Cause]:
        if self._allow_privileged:
            return []
        return [
            forbidden_value(f"spec.{kind}[{index}].securityContext.privileged", "disallowed by cluster policy")
            for kind in ("containers", "initContainers", "ephemeralContainers")
            for index, container in enumerate(new["spec"].get(kind) or ())
            if dig(container, ("securityContext", "privileged"))
        ]

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        if subresource == "ephemeralcontainers":
            added = dig(new, ("spec", "ephemeralContainers")) or []
            new.clear()
            new.update({**old, "spec": {**old["spec"], "ephemeralContainers": added}})
            apply_defaults(new)
            return
        super().prepare_update(new, old, subresource)
        drop_from_pod(self._gates, new, old)
        if subresource == "status":
            status = new.setdefault("status", {})
            status.setdefault("qosClass", dig(old, ("status", "qosClass")) or qos_class(old["spec"]))
            ips = status.get("podIPs")
            if status.get("podIP") and not ips:
                status["podIPs"] = [{"ip": status["podIP"]}]
            elif ips and not status.get("podIP"):
                status["podIP"] = ips[0]["ip"]
        else:
            ephemeral = old["spec"].get("ephemeralContainers")
            if ephemeral is not None:
                new["spec"]["ephemeralContainers"] = ephemeral
            else:
                new["spec"].pop("ephemeralContainers", None)

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        if subresource == "status":
            return []
        if subresource == "ephemeralcontainers":
            return _validate_ephemeral(new, old) + self._check_privileged(new)
        return validate_pod_update(new, old)

    def grace_seconds(self, obj: Object, requested: int | None) -> int:
        spec = obj["spec"]
        if not spec.get("nodeName") or dig(obj, ("status", "phase")) in _FINISHED:
            return 0
        wanted: int = spec.get("terminationGracePeriodSeconds", 30) if requested is None else requested
        metadata = obj["metadata"]
        if "deletionTimestamp" not in metadata or wanted == 0:
            return max(0, wanted)
        under_way: int = metadata.get("deletionGracePeriodSeconds") or 0
        return min(under_way, wanted) if requested is not None else under_way


def resources(options: Options) -> list[Resource]:
    return [
        Resource(
            "",
            "v1",
            "Pod",
            "pods",
            short_names=("po",),
            categories=("all",),
            strategy=PodStrategy(options.gates, allow_privileged=options.allow_privileged),
            subresources=(
                Subresource("attach", ("create", "get"), "PodAttachOptions", stream=streams.attach),
                Subresource("binding", ("create",), "Binding", action=bind),
                Subresource("ephemeralcontainers"),
                Subresource("eviction", ("create",), "Eviction", "policy", "v1", action=evict),
                Subresource("exec", ("create", "get"), "PodExecOptions", stream=streams.exec_),
                Subresource("log", ("get",), stream=streams.log),
                Subresource("portforward", ("create", "get"), "PodPortForwardOptions", stream=streams.port_forward),
                Subresource("proxy", PROXY_VERBS, "PodProxyOptions", stream=streams.proxy_pod),
                Subresource("status"),
            ),
            columns=(
                NAME,
                Column("Ready", ready_containers, description="Containers that are ready, of all."),
                Column("Status", shown_status, description="What the pod is doing."),
                Column("Restarts", restarts, description="How often its containers were restarted."),
                AGE,
                at("IP", "status.podIP", wide=True),
                at("Node", "spec.nodeName", wide=True),
                at("Nominated Node", "status.nominatedNodeName", wide=True),
                Column("Readiness Gates", _gates, wide=True),
            ),
            fields={
                "spec.nodeName": ("spec", "nodeName"),
                "spec.restartPolicy": ("spec", "restartPolicy"),
                "spec.schedulerName": ("spec", "schedulerName"),
                "spec.serviceAccountName": ("spec", "serviceAccountName"),
                "spec.hostNetwork": ("spec", "hostNetwork"),
                "status.phase": ("status", "phase"),
                "status.podIP": ("status", "podIP"),
                "status.podIPs": ("status", "podIP"),
                "status.nominatedNodeName": ("status", "nominatedNodeName"),
            },
            returns_deleted=True,
        ),
        Resource("", "v1", "Binding", "bindings", verbs=("create",), action=bind),
    ]


def bound(pod: Object, node: str) -> Object:
    """Return *pod* assigned to *node*."""
    conditions = [item for item in dig(pod, ("status", "conditions")) or () if item.get("type") != "PodScheduled"]
    conditions.append(
        {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": objects.now()}
    )
    return {
        **pod,
        "spec": {**pod["spec"], "nodeName": node},
        "status": {**pod.get("status", {}), "conditions": conditions},
    }


async def bind(server: ApiServer, request: Request, resource: Resource) -> Reply:
    """Assign a pod to the node that the Binding of the body names."""
    from apiserver_stub.verbs.writing import DryRun, precondition_failed, read_object

    info = request.info
    binding = read_object(request, "Binding", "v1")
    await server.admission.check(Call("CREATE", request, resource, binding, name=info.name, dry_run=request.dry_run))
    node = (binding.get("target") or {}).get("name") or ""
    name = info.name or binding["metadata"].get("name") or ""
    if not node:
        raise invalid("", "Binding", name, [required("target.name")])

    def decide(current: Record | None) -> Outcome:
        if current is None:
            raise not_found("", "pods", name)
        pod: Object = objects.decode(current.data)
        for member, label in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
            if (wanted := binding["metadata"].get(member)) and wanted != pod["metadata"][member]:
                raise precondition_failed(resource, current.key, name, label, wanted, pod["metadata"][member])
        if already := pod["spec"].get("nodeName"):
            raise conflict("", "pods/binding", name, f'pod {name} is already assigned to node "{already}"')
        if "deletionTimestamp" in pod["metadata"]:
            raise conflict("", "pods/binding", name, f"pod {name} is being deleted, cannot be assigned to a host")
        annotations = binding["metadata"].get("annotations")
        if annotations:
            pod["metadata"]["annotations"] = {**(pod["metadata"].get("annotations") or {}), **annotations}
        if request.dry_run:
            raise DryRun(pod)
        return Put(objects.encode_for_store(bound(pod, node)))

    with contextlib.suppress(DryRun):
        await server.store.update("core/pods", objects.key_of(info.namespace, name), decide)
    return Reply(201, obj=done(201))


def _validate_ephemeral(new: Object, old: Object) -> list[Cause]:
    before = {item.get("name"): item for item in old["spec"].get("ephemeralContainers") or ()}
    after = {item.get("name"): item for item in new["spec"].get("ephemeralContainers") or ()}
    field = "spec.ephemeralContainers"
    causes = []
    for name, container in before.items():
        if name not in after:
            causes.append(forbidden_value(field, f'existing ephemeral containers "{name}" may not be removed\n'))
        elif after[name] != container:
            causes.append(forbidden_value(field, f'existing ephemeral containers "{name}" may not be changed\n'))
    return causes + [cause for cause in validate_pod(new) if cause.field.startswith(field)]


def _gates(pod: Object) -> Any:
    gates = dig(pod, ("spec", "readinessGates")) or ()
    if not gates:
        return "<none>"
    conditions = {item["type"]: item.get("status") for item in dig(pod, ("status", "conditions")) or ()}
    met = sum(conditions.get(gate.get("conditionType")) == "True" for gate in gates)
    return f"{met}/{len(gates)}"
