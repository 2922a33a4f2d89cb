"""Validation of static pods with the rules that the API server applies to new pods. No I/O.

The pod must be defaulted (:mod:`nodeagent.model.pod_defaults`).
"""

from __future__ import annotations

from nodeagent.base.names import label_problems, label_value_problems, qualified_name_problems, subdomain_problems
from nodeagent.base.sysctls import sysctl_name_problems
from nodeagent.errors import Problem
from nodeagent.model import checks
from nodeagent.model.checks import Problems
from nodeagent.model.container_validation import check_apparmor, check_containers, check_seccomp
from nodeagent.model.meta import ObjectMeta
from nodeagent.model.pod import Pod, PodSpec, RestartPolicy
from nodeagent.model.pod_level_resources import check_pod_level_resources
from nodeagent.model.volume_validation import check_volumes

_MAX_ANNOTATIONS = 256 * 1024
_MAX_OVERRIDE = 64
_MAX_SECONDS = 2**31 - 1
_DNS_POLICIES = ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def validate_pod(pod: Pod, source: str = "pod") -> list[Problem]:
    """Return all problems of *pod*; empty if it is valid.

    :param source: origin of the pod in the problems, such as a file.
    """
    problems = Problems(source)
    if pod.api_version != "v1" or pod.kind != "Pod":
        problems.add("kind", f"{pod.api_version}/{pod.kind}", "must be a v1 Pod")
        return problems.found
    _check_metadata(problems, pod.metadata)
    _check_spec(problems, pod)
    return problems.found


def _check_metadata(problems: Problems, meta: ObjectMeta) -> None:
    problems.name("metadata.name", meta.name, subdomain_problems)
    problems.name("metadata.namespace", meta.namespace, label_problems)
    for key, value in (meta.labels or {}).items():
        problems.check("metadata.labels", key, qualified_name_problems)
        problems.check(f"metadata.labels[{key}]", value, label_value_problems)
    size = 0
    for key, value in (meta.annotations or {}).items():
        problems.check("metadata.annotations", key, lambda name: qualified_name_problems(name.lower()))
        size += len(key.encode()) + len(value.encode())
    if size > _MAX_ANNOTATIONS:
        problems.add("metadata.annotations", None, f"must not exceed {_MAX_ANNOTATIONS} bytes in total")


def _check_spec(problems: Problems, pod: Pod) -> None:
    spec = pod.spec
    volumes = check_volumes(problems, "spec.volumes", spec.volumes or ())
    check_containers(problems, spec, volumes)
    check_pod_level_resources(problems, pod)
    if spec.ephemeral_containers:
        problems.add("spec.ephemeralContainers", None, "must not be set when a pod is created")
    problems.choice("spec.restartPolicy", spec.restart_policy, list(RestartPolicy))
    problems.at_least("spec.terminationGracePeriodSeconds", spec.termination_grace_period_seconds, 0)
    problems.between("spec.activeDeadlineSeconds", spec.active_deadline_seconds, 1, _MAX_SECONDS)
    problems.optional("spec.hostname", spec.hostname, label_problems)
    _check_hostname_override(problems, spec)
    problems.optional("spec.subdomain", spec.subdomain, label_problems)
    problems.optional("spec.nodeName", spec.node_name, subdomain_problems)
    problems.optional("spec.serviceAccountName", spec.service_account_name, subdomain_problems)
    problems.optional("spec.runtimeClassName", spec.runtime_class_name, subdomain_problems)
    problems.optional("spec.priorityClassName", spec.priority_class_name, subdomain_problems)
    problems.choice("spec.preemptionPolicy", spec.preemption_policy, ("Never", "PreemptLowerPriority"))
    if spec.os is not None:
        problems.choice("spec.os.name", spec.os.name or "-", ("linux", "windows"))
    if spec.share_process_namespace and spec.host_pid:
        problems.add("spec.shareProcessNamespace", True, "must not be set together with hostPID")
    for i, reference in enumerate(spec.image_pull_secrets or ()):
        problems.optional(f"spec.imagePullSecrets[{i}].name", reference.name, subdomain_problems)
    for i, gate in enumerate(spec.readiness_gates or ()):
        problems.name(f"spec.readinessGates[{i}].conditionType", gate.condition_type, qualified_name_problems)
    for key, value in (spec.node_selector or {}).items():
        problems.check("spec.nodeSelector", key, qualified_name_problems)
        problems.check(f"spec.nodeSelector[{key}]", value, label_value_problems)
    _check_network(problems, spec)
    _check_tolerations(problems, spec)
    _check_security(problems, spec)


def _check_hostname_override(problems: Problems, spec: PodSpec) -> None:
    name, path = spec.hostname_override, "spec.hostnameOverride"
    if name is None:
        return
    if problems.name(path, name, subdomain_problems) and len(name) > _MAX_OVERRIDE:
        problems.add(path, name, f"must not have more than {_MAX_OVERRIDE} characters")
    for other, is_set in (("setHostnameAsFQDN", spec.set_hostname_as_fqdn), ("hostNetwork", spec.host_network)):
        if is_set:
            problems.add(path, name, f"must not be set together with {other}")


def _check_network(problems: Problems, spec: PodSpec) -> None:
    problems.choice("spec.dnsPolicy", spec.dns_policy, _DNS_POLICIES)
    config = spec.dns_config
    servers = (config.nameservers if config else None) or []
    if spec.dns_policy == "None" and not servers:
        problems.add("spec.dnsConfig.nameservers", None, "needs at least one server with dnsPolicy None")
    if len(servers) > 3:
        problems.add("spec.dnsConfig.nameservers", servers, "must not have more than 3 servers")
    for i, server in enumerate(servers):
        problems.check(f"spec.dnsConfig.nameservers[{i}]", server, checks.ip_address)
    if config is not None:
        searches = config.searches or []
        if len(searches) > 32 or len(" ".join(searches)) > 2048:
            problems.add("spec.dnsConfig.searches", None, "must not have more than 32 domains or 2048 characters")
        for i, search in enumerate(searches):
            if domain := search.removesuffix("."):
                problems.check(f"spec.dnsConfig.searches[{i}]", domain, subdomain_problems)
        for i, option in enumerate(config.options or ()):
            problems.require(f"spec.dnsConfig.options[{i}].name", option.name)
    for i, alias in enumerate(spec.host_aliases or ()):
        problems.check(f"spec.hostAliases[{i}].ip", alias.ip, checks.ip_address)
        for j, hostname in enumerate(alias.hostnames or ()):
            problems.check(f"spec.hostAliases[{i}].hostnames[{j}]", hostname, subdomain_problems)


def _check_tolerations(problems: Problems, spec: PodSpec) -> None:
    for i, toleration in enumerate(spec.tolerations or ()):
        path = f"spec.tolerations[{i}]"
        problems.optional(f"{path}.key", toleration.key, qualified_name_problems)
        problems.choice(f"{path}.operator", toleration.operator, ("Exists", "Equal"))
        problems.choice(f"{path}.effect", toleration.effect, _EFFECTS)
        if not toleration.key and toleration.operator != "Exists":
            problems.add(f"{path}.operator", toleration.operator, "must be Exists when key is empty")
        if toleration.operator == "Exists" and toleration.value:
            problems.add(f"{path}.value", toleration.value, "must be empty when operator is Exists")
        if toleration.toleration_seconds is not None and toleration.effect != "NoExecute":
            problems.add(f"{path}.effect", toleration.effect, "must be NoExecute when tolerationSeconds is set")


def _check_security(problems: Problems, spec: PodSpec) -> None:
    context = spec.security_context
    if context is None:
        return
    path = "spec.securityContext"
    for name, number in (
        ("runAsUser", context.run_as_user),
        ("runAsGroup", context.run_as_group),
        ("fsGroup", context.fs_group),
    ):
        problems.between(f"{path}.{name}", number, 0, 2**31 - 1)
    for i, group in enumerate(context.supplemental_groups or ()):
        problems.between(f"{path}.supplementalGroups[{i}]", group, 0, 2**31 - 1)
    problems.choice(f"{path}.fsGroupChangePolicy", context.fs_group_change_policy, ("OnRootMismatch", "Always"))
    check_seccomp(problems, f"{path}.seccompProfile", context.seccomp_profile)
    check_apparmor(problems, f"{path}.appArmorProfile", context.app_armor_profile)
    seen: set[str] = set()
    for i, sysctl in enumerate(context.sysctls or ()):
        at = f"{path}.sysctls[{i}].name"
        if problems.name(at, sysctl.name, sysctl_name_problems) and sysctl.name in seen:
            problems.add(at, sysctl.name, "is a duplicate")
        seen.add(sysctl.name)
