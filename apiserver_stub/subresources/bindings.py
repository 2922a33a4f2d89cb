"""Bindings: requests that assign a pod to a node."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import ApiError, bad_request, conflict, done, not_found, not_supported, required
from apiserver_stub.kinds.pod_binding import BindingRules, bound
from apiserver_stub.storage import Outcome, Put, Record
from apiserver_stub.verbs.admission import AdmissionRequest
from apiserver_stub.verbs.body import read_object
from apiserver_stub.verbs.preparation import DryRun, clean_metadata, precondition_failed, settle_namespace
from apiserver_stub.verbs.responses import Reply
from apiserver_stub.verbs.write_options import check_options

if TYPE_CHECKING:
    from apiserver_stub.apimachinery.request import Request
    from apiserver_stub.kinds.registry import Resource
    from apiserver_stub.verbs.context import VerbContext


class Bindings:
    """The kind ``Binding``, and the subresource ``binding`` of pods."""

    def __init__(self, context: VerbContext, rules: BindingRules) -> None:
        self._context, self._rules = context, rules

    async def create(self, request: Request, resource: Resource) -> Reply:
        """Assign a pod to the node that the Binding of the body names."""
        check_options(request, "CreateOptions")
        info = request.info
        binding = read_object(request, "Binding", "v1")
        if not info.subresource:
            clean_metadata(request, binding["metadata"])
        settle_namespace(request, resource, binding["metadata"])
        target = binding.get("target") or {}
        node, name = target.get("name") or "", info.name or binding["metadata"].get("name") or ""
        if name != (binding["metadata"].get("name") or ""):
            raise bad_request("name in URL does not match name in Binding object")
        causes = []
        if (kind := target.get("kind") or "Node") != "Node":
            causes.append(not_supported("target.kind", kind, ("Node", "<empty>")))
        if not node:
            causes.append(required("target.name"))
        if causes:
            texts = [f"{cause.field}: {cause.message}" for cause in causes]
            raise ApiError(500, "", texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")
        await self._context.admission.check(
            AdmissionRequest("CREATE", request, resource, binding, name=info.name, dry_run=request.dry_run)
        )
        if not name:
            raise bad_request("Name parameter required.")

        def decide(current: Record | None) -> Outcome:
            if current is None:
                raise not_found("", "pods", name)
            pod: Object = objects.decode(current.data)
            for member, label in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
                if (expected := binding["metadata"].get(member)) and expected != pod["metadata"][member]:
                    raise precondition_failed(
                        request, resource, current.key, name, label, expected, pod["metadata"][member]
                    )
            problem = ""
            if "deletionTimestamp" in pod["metadata"]:
                problem = f"pod {name} is being deleted, cannot be assigned to a host"
            elif already := pod["spec"].get("nodeName"):
                problem = f'pod {name} is already assigned to node "{already}"'
            elif pod["spec"].get("schedulingGates"):
                problem = f"pod {name} has non-empty .spec.schedulingGates"
            if problem:
                raise conflict("", "pods/binding", name, problem)
            annotations = binding["metadata"].get("annotations")
            if annotations:
                pod["metadata"]["annotations"] = {**(pod["metadata"].get("annotations") or {}), **annotations}
            if request.dry_run:
                raise DryRun(pod)
            return Put(objects.encode_for_store(bound(pod, node, self._rules, binding["metadata"].get("labels"))))

        with contextlib.suppress(DryRun):
            await self._context.store.update("core/pods", objects.key_of(info.namespace, name), decide)
        return Reply(201, obj=done(201))
