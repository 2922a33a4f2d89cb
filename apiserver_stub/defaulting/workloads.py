"""Defaults of the kinds that create pods. No I/O."""

from __future__ import annotations

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.defaulting.pod_spec import POD_SPEC
from apiserver_stub.defaulting.storage import CLAIM
from apiserver_stub.defaulting.table import Defaults

ROLLING = "RollingUpdate"
POD_TEMPLATE = Defaults(below={"spec": POD_SPEC})


def _default_deployment(spec: Object) -> None:
    strategy = spec.setdefault("strategy", {})
    if strategy.setdefault("type", ROLLING) == ROLLING:
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")


def _default_daemon_set(spec: Object) -> None:
    strategy = spec.setdefault("updateStrategy", {})
    is_rolling = strategy.setdefault("type", ROLLING) == ROLLING
    rolling = strategy.setdefault("rollingUpdate", {}) if is_rolling else strategy.get("rollingUpdate")
    if rolling is not None:
        rolling.setdefault("maxUnavailable", int(is_rolling))
        rolling.setdefault("maxSurge", 0)


DEPLOYMENT = Defaults(
    below={
        "spec": Defaults(
            {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600},
            _default_deployment,
            {"template": POD_TEMPLATE},
        )
    }
)
REPLICA_SET = Defaults(below={"spec": Defaults({"replicas": 1}, below={"template": POD_TEMPLATE})})
DAEMON_SET = Defaults(
    below={"spec": Defaults({"revisionHistoryLimit": 10}, _default_daemon_set, {"template": POD_TEMPLATE})}
)


def stateful_set_defaults(*, max_unavailable: bool, deletes_claims: bool) -> Defaults:
    """Return the table of a StatefulSet; the arguments are the states of two feature gates.

    spec: gate.MaxUnavailableStatefulSet, gate.StatefulSetAutoDeletePVC
    """

    def default(spec: Object) -> None:
        strategy = spec.setdefault("updateStrategy", {})
        if "type" not in strategy:
            strategy["type"] = ROLLING
            strategy.setdefault("rollingUpdate", {})
        rolling = strategy.get("rollingUpdate")
        if strategy["type"] == ROLLING and rolling is not None:
            rolling.setdefault("partition", 0)
            if max_unavailable:
                rolling.setdefault("maxUnavailable", 1)
        if deletes_claims:
            policy = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
            policy.setdefault("whenDeleted", "Retain")
            policy.setdefault("whenScaled", "Retain")
        for claim in spec.get("volumeClaimTemplates") or ():
            claim["kind"], claim["apiVersion"] = "PersistentVolumeClaim", "v1"

    values = {"podManagementPolicy": "OrderedReady", "replicas": 1, "revisionHistoryLimit": 10}
    spec = Defaults(values, default, {"template": POD_TEMPLATE, "volumeClaimTemplates": CLAIM})
    return Defaults(below={"spec": spec})


def _default_replication_controller(controller: Object) -> None:
    spec = controller.setdefault("spec", {})
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if labels:
        if not spec.get("selector"):
            spec["selector"] = dict(labels)
        if not controller["metadata"].get("labels"):
            controller["metadata"]["labels"] = dict(labels)


REPLICATION_CONTROLLER = Defaults(
    rule=_default_replication_controller, below={"spec": Defaults({"replicas": 1}, below={"template": POD_TEMPLATE})}
)
CRON_JOB = Defaults(
    below={
        "spec": Defaults(
            {
                "concurrencyPolicy": "Allow",
                "suspend": False,
                "successfulJobsHistoryLimit": 3,
                "failedJobsHistoryLimit": 1,
            },
            below={"jobTemplate": Defaults(below={"spec": Defaults(below={"template": POD_TEMPLATE})})},
        )
    }
)
_NO_BACKOFF_LIMIT = (1 << 31) - 1


def job_defaults(*, replacement_policy: bool) -> Defaults:
    """Return the table of a Job; *replacement_policy* is the state of the gate ``JobPodReplacementPolicy``."""

    def default(job: Object) -> None:
        spec = job.setdefault("spec", {})
        if "completions" not in spec and "parallelism" not in spec:
            spec["completions"] = 1
        spec.setdefault("parallelism", 1)
        spec.setdefault("backoffLimit", 6 if spec.get("backoffLimitPerIndex") is None else _NO_BACKOFF_LIMIT)
        labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
        if labels and not job["metadata"].get("labels"):
            job["metadata"]["labels"] = labels  # Shared: a new Job also gets the generated ones, see JobStrategy.
        spec.setdefault("completionMode", "NonIndexed")
        spec.setdefault("suspend", False)
        policy = spec.get("podFailurePolicy")
        for rule in (policy or {}).get("rules") or ():
            for pattern in rule.get("onPodConditions") or ():
                pattern["status"] = pattern.get("status") or "True"
        if replacement_policy:
            spec.setdefault("podReplacementPolicy", "TerminatingOrFailed" if policy is None else "Failed")
        spec.setdefault("manualSelector", False)

    return Defaults(rule=default, below={"spec": Defaults(below={"template": POD_TEMPLATE})})
