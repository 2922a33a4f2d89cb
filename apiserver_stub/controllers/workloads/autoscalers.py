"""Horizontal pod autoscaler: sets the number of replicas so that metrics reach their targets."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import msgspec

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.apimachinery.status import ApiError, qualified
from apiserver_stub.controllers.autoscaling.evaluation import Evaluator, MetricUnavailable, Proposal, Scaled
from apiserver_stub.controllers.autoscaling.limits import History, bounded, record_change
from apiserver_stub.controllers.autoscaling.metrics import MetricsClient
from apiserver_stub.controllers.autoscaling.replicas import Tolerance
from apiserver_stub.controllers.autoscaling.scale_targets import NoScaleTarget, ScaleTarget, ScaleTargets
from apiserver_stub.controllers.plugin import Controller, ControllerContext
from apiserver_stub.controllers.views import PodView, View
from apiserver_stub.controllers.work_queue import WorkQueue
from apiserver_stub.controllers.workloads import conditions
from apiserver_stub.kinds.autoscaler_versions import to_v2
from nodeagent.base.quantity import Quantity
from nodeagent.base.selectors import LabelSelector, SelectorError, parse_label_selector
from nodeagent.base.structs import MutableStruct

SYNC_SECONDS = 15.0
"""Time between two evaluations of an autoscaler."""
_AT_ONCE = 5
_AUTOSCALERS, _PODS = "autoscaling/horizontalpodautoscalers", "core/pods"
_DEFAULT_TOLERANCE = 0.1


class AutoscalerView(View, frozen=True, rename="camel"):
    """An autoscaler; its status, which the controller writes, is left out."""

    spec: dict[str, Any] = msgspec.field(default_factory=dict)


class Autoscalers(Controller):
    """HorizontalPodAutoscalers."""

    name, alias = "horizontal-pod-autoscaler-controller", "horizontalpodautoscaling"
    resources = ("horizontalpodautoscalers.autoscaling", "pods")
    views: ClassVar[Mapping[str, type[View]]] = {_AUTOSCALERS: AutoscalerView, _PODS: PodView}

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._writer, self._events = context.writer(self.name), context.events(self.name)
        self._queue: WorkQueue[str] = WorkQueue(self.name, context.clock)
        self._resource = self._writer.resource("autoscaling", "v2", "horizontalpodautoscalers")
        self._pods = self._writer.resource("", "v1", "pods")
        self._targets = ScaleTargets(context.verbs, context.registry, context.identity, self.name)
        self._metrics = context.metrics or MetricsClient(None, None, context.identity, context.clock)
        self._histories: dict[str, History] = {}
        self._selectors: dict[str, LabelSelector] = {}
        context.index.listen(_AUTOSCALERS, self._changed)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._events.run())
            group.create_task(self._queue.run(self._process, at_once=_AT_ONCE))

    def _changed(self, before: View | None, after: View | None) -> None:
        if after is not None:
            self._queue.add(after.key)
        elif before is not None:
            self._histories.pop(before.key, None)
            self._selectors.pop(before.key, None)

    async def _process(self, key: str) -> None:
        await self.context.leadership.acquired()
        await self._writer.settled()
        await self.context.index.catch_up()
        record = self.context.verbs.store.collection(_AUTOSCALERS).get(key)
        if record is None:
            return
        autoscaler = self._resource.read(record)
        if "deletionTimestamp" not in autoscaler["metadata"]:
            evaluation = Evaluation.of(autoscaler, objects.format_time(self.context.clock.wall()))
            try:
                await self._evaluate(key, evaluation)
            finally:
                await self._write_status(evaluation)
        self._queue.add_after(key, SYNC_SECONDS)

    async def _evaluate(self, key: str, evaluation: Evaluation) -> None:
        spec, namespace = evaluation.spec, evaluation.autoscaler["metadata"]["namespace"]
        try:
            target = await self._targets.read(namespace, spec["scaleTargetRef"])
        except NoScaleTarget as error:
            text = "the HPA controller was unable to get the target's current scale"
            evaluation.set("AbleToScale", "False", "FailedGetScale", f"{text}: {error}")
            self._events.record(evaluation.autoscaler, "Warning", "FailedGetScale", "", str(error))
            return
        text = "the HPA controller was able to get the target's current scale"
        evaluation.set("AbleToScale", "True", "SucceededGetScale", text)
        current = dig(target.scale, ("spec", "replicas")) or 0
        minimum = spec.get("minReplicas")
        minimum = 1 if minimum is None else minimum
        evaluation.current, metrics = current, evaluation.metrics
        evaluation.metrics = None
        desired, reason = current, ""
        if current == 0 and minimum != 0:
            text = "scaling is disabled since the replica count of the target is zero"
            evaluation.set("ScalingActive", "False", "ScalingDisabled", text)
        elif current > spec["maxReplicas"]:
            desired, reason = spec["maxReplicas"], "Current number of replicas above Spec.MaxReplicas"
        elif current < minimum:
            desired, reason = minimum, "Current number of replicas below Spec.MinReplicas"
        else:
            proposal = await self._required(key, evaluation, target)
            if proposal is None:
                evaluation.metrics = metrics
                return
            history = self._histories.setdefault(key, History())
            now, behavior = self.context.clock.now(), spec.get("behavior")
            found = bounded(proposal.replicas, current, minimum, spec["maxReplicas"], behavior, history, now)
            evaluation.set("AbleToScale", "True", *found.stabilization)
            evaluation.set("ScalingLimited", str(found.limited), *found.limit)
            desired = found.replicas
            reason = f"{proposal.metric} above target" if proposal.replicas > current else "All metrics below target"
        if desired == current or await self._resize(key, evaluation, target, desired, reason):
            evaluation.desired = desired
        else:
            evaluation.metrics = metrics

    async def _resize(self, key: str, evaluation: Evaluation, target: ScaleTarget, desired: int, reason: str) -> bool:
        """Set the number of replicas; return whether that succeeded."""
        autoscaler = evaluation.autoscaler
        try:
            await self._targets.resize(target, desired)
        except ApiError as error:
            text = f"New size: {desired}; reason: {reason}; error: {error.message}"
            self._events.record(autoscaler, "Warning", "FailedRescale", "", text)
            text = f"the HPA controller was unable to update the target scale: {error.message}"
            evaluation.set("AbleToScale", "False", "FailedUpdateScale", text)
            return False
        text = f"the HPA controller was able to update the target scale to {desired}"
        evaluation.set("AbleToScale", "True", "SucceededRescale", text)
        self._events.record(autoscaler, "Normal", "SuccessfulRescale", "", f"New size: {desired}; reason: {reason}")
        evaluation.rescaled = True
        history = self._histories.setdefault(key, History())
        record_change(evaluation.current, desired, evaluation.spec.get("behavior"), history, self.context.clock.now())
        return True

    async def _required(self, key: str, evaluation: Evaluation, target: ScaleTarget) -> Proposal | None:
        """Return the largest number of replicas that a metric requires, ``None`` if it is unknown.

        The condition ``ScalingActive`` and the statuses of the metrics are set.
        """
        scaled = self._scaled(key, evaluation, target)
        if scaled is None:
            return None
        evaluator = Evaluator(
            self._metrics, self._tolerance(evaluation.spec), self._resource_of, self.context.clock.wall()
        )
        metrics = evaluation.spec.get("metrics") or ()
        best: Proposal | None = None
        failures: list[MetricUnavailable] = []
        evaluation.metrics = []
        for metric in metrics:
            try:
                self._check_supported(metric)
                found = await evaluator.evaluate(metric, scaled)
            except MetricUnavailable as error:
                failures.append(error)
                self._events.record(evaluation.autoscaler, "Warning", error.reason, "", str(error))
                evaluation.metrics.append({"type": ""})
                continue
            evaluation.metrics.append(found.status)
            if best is None or found.replicas > best.replicas:
                best = found
        if best is None or (failures and best.replicas < scaled.current):
            first = failures[0]
            text = f"the HPA was unable to compute the replica count: {first}"
            evaluation.set("ScalingActive", "False", first.reason, text)
            text = f"invalid metrics ({len(failures)} invalid out of {len(metrics)}), first error is: {first}"
            self._events.record(evaluation.autoscaler, "Warning", "FailedComputeMetricsReplicas", "", text)
            return None
        text = f"the HPA was able to successfully calculate a replica count from {best.metric}"
        evaluation.set("ScalingActive", "True", "ValidMetricFound", text)
        return best

    def _check_supported(self, metric: Object) -> None:
        """Check that a feature gate enables the type of *metric*.

        :raises MetricUnavailable: it is disabled.
        """
        gates = self.context.gates
        if metric.get("type") == "ContainerResource" and not gates.enabled("HPAContainerMetrics"):
            text = "metrics of containers are disabled by the feature gate HPAContainerMetrics"
            raise MetricUnavailable("FailedGetContainerResourceMetric", text)

    def _scaled(self, key: str, evaluation: Evaluation, target: ScaleTarget) -> Scaled | None:
        """Return the pods of *target*, ``None`` after setting the condition if its selector is not usable."""
        text = dig(target.scale, ("status", "selector")) or ""
        if not text:
            message = "the HPA target's scale is missing a selector"
            self._reject_selector(evaluation, "InvalidSelector", message, "SelectorRequired", "selector is required")
            return None
        try:
            selector = parse_label_selector(text)
        except SelectorError as error:
            message = f"couldn't convert selector into a corresponding internal selector object: {error}"
            self._reject_selector(evaluation, "InvalidSelector", message, "InvalidSelector", message)
            return None
        self._selectors[key] = selector
        namespace = evaluation.autoscaler["metadata"]["namespace"]
        pods: list[PodView] = [
            pod
            for pod in self.context.index.all(_PODS)
            if pod.metadata.namespace == namespace and selector.matches(pod.metadata.labels)
        ]
        if others := self._others_of(key, namespace, pods):
            listed = " ".join(sorted([key, *others]))
            message = f"pods by selector {text} are controlled by multiple HPAs: [{listed}]"
            self._reject_selector(evaluation, "AmbiguousSelector", message, "AmbiguousSelector", message)
            return None
        observed = dig(target.scale, ("status", "replicas")) or 0
        return Scaled(namespace, evaluation.current, observed, text, pods, self._read_pod)

    def _reject_selector(self, evaluation: Evaluation, reason: str, message: str, event: str, note: str) -> None:
        evaluation.set("ScalingActive", "False", reason, message)
        self._events.record(evaluation.autoscaler, "Warning", event, "", note)

    def _others_of(self, key: str, namespace: str, pods: Sequence[PodView]) -> list[str]:
        """Return the other autoscalers whose selectors match one of *pods*."""
        prefix = f"{namespace}/"
        return [
            other
            for other, selector in self._selectors.items()
            if other != key and other.startswith(prefix) and any(selector.matches(pod.metadata.labels) for pod in pods)
        ]

    def _read_pod(self, view: PodView) -> Object | None:
        record = self.context.verbs.store.collection(_PODS).get(view.key)
        return None if record is None else self._pods.read(record)

    def _resource_of(self, api_version: str, kind: str) -> tuple[str, bool]:
        group, _, version = api_version.rpartition("/")
        found = self.context.registry.find_kind(group, version, kind)
        if found is None:
            return qualified(f"{kind.lower()}s", group), True
        return qualified(found.plural, found.group), found.namespaced

    def _tolerance(self, spec: Object) -> Tolerance:
        down = up = _DEFAULT_TOLERANCE
        if self.context.gates.enabled("HPAConfigurableTolerance"):
            down = _amount(dig(spec, ("behavior", "scaleDown", "tolerance")), down)
            up = _amount(dig(spec, ("behavior", "scaleUp", "tolerance")), up)
        return Tolerance(down, up)

    async def _write_status(self, evaluation: Evaluation) -> None:
        old = evaluation.autoscaler.get("status") or {}
        status: Object = {
            **{name: old[name] for name in ("observedGeneration", "lastScaleTime") if name in old},
            "currentReplicas": evaluation.current,
            "desiredReplicas": evaluation.desired,
            "currentMetrics": evaluation.metrics,
            "conditions": evaluation.conditions,
        }
        if evaluation.rescaled:
            status["lastScaleTime"] = evaluation.time
        if status == old:
            return
        domain = self.context.identity.label_domain

        def edit(obj: Object) -> None:
            if obj.get("apiVersion") != self._resource.api_version:
                new = to_v2(domain, obj)
                obj.clear()
                obj.update(new)
            obj["status"] = status

        await self._writer.change(self._resource, evaluation.autoscaler, edit)


class Evaluation(MutableStruct):
    """Evaluation of one autoscaler, and the parts of its status."""

    autoscaler: Object
    time: str
    conditions: list[Object]
    current: int
    desired: int
    metrics: list[Object] | None
    rescaled: bool = False

    @classmethod
    def of(cls, autoscaler: Object, time: str) -> Evaluation:
        """Return the evaluation of *autoscaler* at *time*, with its previous status."""
        status = autoscaler.get("status") or {}
        return cls(
            autoscaler,
            time,
            list(status.get("conditions") or ()),
            status.get("currentReplicas") or 0,
            status.get("desiredReplicas") or 0,
            status.get("currentMetrics"),
        )

    @property
    def spec(self) -> Object:
        spec: Object = self.autoscaler["spec"]
        return spec

    def set(self, kind: str, status: str, reason: str, message: str) -> None:
        """Set a condition; its transition time changes only with its status."""
        old = conditions.find(self.conditions, kind)
        new = {"type": kind, "status": status, "lastTransitionTime": self.time, "reason": reason, "message": message}
        if old is None:
            self.conditions.append(new)
            return
        if old.get("status") == status:
            new["lastTransitionTime"] = old.get("lastTransitionTime") or self.time
        self.conditions = [new if item is old else item for item in self.conditions]


def _amount(text: Any, default: float) -> float:
    return default if text is None else Quantity.parse(str(text)).nanos / 10**9
