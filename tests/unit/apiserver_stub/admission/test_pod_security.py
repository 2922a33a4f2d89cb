"""Tests for the checks of the pod security standards and their upstream messages."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.admission.pod_security.checks import Standards
from apiserver_stub.admission.pod_security.levels import EARLY, Level, read_policy
from nodeagent.base.identity import Identity

GOOD = {
    "securityContext": {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
}
SECCOMP = (("", "pod"), ("container.", "a"))
DEFAULTS: Any = dict.fromkeys(("enforce", "audit", "warn"), Level())


def pod(container: Any = None, **spec: Any) -> dict[str, Any]:
    return {"metadata": spec.pop("metadata", {}), "spec": {"containers": [{"name": "a", **(container or {})}], **spec}}


def secure(**context: Any) -> dict[str, Any]:
    return {"securityContext": {**GOOD["securityContext"], **context}}


def reported(level: str, made: dict[str, Any], version: str = "latest", standards: Standards = EARLY) -> list[str]:
    return [str(finding) for finding in Level(level, version).findings(made, Identity(), standards)]


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (pod(hostIPC=True), "host namespaces (hostIPC=true)"),
        (
            pod({"securityContext": {"privileged": True}}),
            'privileged (container "a" must not set securityContext.privileged=true)',
        ),
        (
            pod({"securityContext": {"capabilities": {"add": ["SYS_ADMIN", "CHOWN"]}}}),
            'non-default capabilities (container "a" must not include "SYS_ADMIN" in securityContext.capabilities.add)',
        ),
        (pod(volumes=[{"name": "h", "hostPath": {"path": "/"}}]), 'hostPath volumes (volume "h")'),
        (pod({"ports": [{"hostPort": 80}]}), 'hostPort (container "a" uses hostPort 80)'),
        (
            pod({"securityContext": {"procMount": "Unmasked"}}),
            'procMount (container "a" must not set securityContext.procMount to "Unmasked")',
        ),
        (
            pod(securityContext={"seLinuxOptions": {"type": "odd", "user": "u"}}),
            'seLinuxOptions (pod set forbidden securityContext.seLinuxOptions: type "odd"; user may not be set)',
        ),
        (
            pod(securityContext={"seccompProfile": {"type": "Unconfined"}}),
            'seccompProfile (pod must not set securityContext.seccompProfile.type to "Unconfined")',
        ),
        (pod(securityContext={"sysctls": [{"name": "kernel.x"}]}), "forbidden sysctls (kernel.x)"),
        (
            pod(metadata={"annotations": {"container.apparmor.security.beta.kubernetes.io/a": "unconfined"}}),
            'forbidden AppArmor profile (container.apparmor.security.beta.kubernetes.io/a="unconfined")',
        ),
        (
            pod({"securityContext": {"windowsOptions": {"hostProcess": True}}}),
            'hostProcess (container "a" must not set securityContext.windowsOptions.hostProcess=true)',
        ),
    ],
)
def test_baseline(made: dict[str, Any], text: str) -> None:
    assert reported("baseline", made) == [text]
    assert reported("baseline", pod(GOOD)) == []
    assert reported("privileged", made) == []


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (
            pod(secure(allowPrivilegeEscalation=None)),
            'allowPrivilegeEscalation != false (container "a" must set securityContext.allowPrivilegeEscalation=false)',
        ),
        (
            pod(secure(capabilities={"add": ["CHOWN"]})),
            'unrestricted capabilities (container "a" must set securityContext.capabilities.drop=["ALL"]; '
            'container "a" must not include "CHOWN" in securityContext.capabilities.add)',
        ),
        (
            pod(GOOD, volumes=[{"name": "n", "nfs": {}}, {"name": "e", "emptyDir": {}}]),
            'restricted volume types (volume "n" uses restricted volume type "nfs")',
        ),
        (
            pod(secure(runAsNonRoot=None)),
            'runAsNonRoot != true (pod or container "a" must set securityContext.runAsNonRoot=true)',
        ),
        (
            pod(secure(runAsNonRoot=False)),
            'runAsNonRoot != true (container "a" must not set securityContext.runAsNonRoot=false)',
        ),
        (pod(secure(runAsUser=0)), 'runAsUser=0 (container "a" must not set runAsUser=0)'),
        (
            pod(secure(seccompProfile=None)),
            'seccompProfile (pod or container "a" must set securityContext.seccompProfile.type to "RuntimeDefault" or '
            '"Localhost")',
        ),
    ],
)
def test_restricted(made: dict[str, Any], text: str) -> None:
    assert reported("restricted", made) == [text]
    assert reported("restricted", pod(GOOD)) == []
    assert reported("baseline", made) == []


def test_policy_version_selects_the_checks() -> None:
    keepalive = pod(GOOD, securityContext={"sysctls": [{"name": "net.ipv4.tcp_keepalive_time"}]})

    assert reported("baseline", keepalive) == []
    assert reported("baseline", keepalive, "v1.28") == ["forbidden sysctls (net.ipv4.tcp_keepalive_time)"]
    assert reported("restricted", pod(secure(seccompProfile=None)), "v1.18") == []


def test_namespace_labels_define_the_policy() -> None:
    prefix = "pod-security.kubernetes.io/"
    policy, causes = read_policy({f"{prefix}enforce": "baseline", f"{prefix}audit-version": "v1.2"}, DEFAULTS, prefix)
    bad, problems = read_policy({f"{prefix}enforce": "x", f"{prefix}warn-version": "y"}, DEFAULTS, prefix)

    assert (str(policy["enforce"]), str(policy["audit"])) == ("baseline:latest", "privileged:v1.2")
    assert str(policy["warn"]) == "baseline:latest"
    assert causes == []
    assert bad["enforce"].name == "restricted"
    assert [cause.field for cause in problems] == [
        f"metadata.labels[{prefix}enforce]",
        f"metadata.labels[{prefix}warn-version]",
    ]


def test_apparmor_fields_are_checked_where_they_exist() -> None:
    profile = {"appArmorProfile": {"type": "Unconfined"}}
    annotations = {"annotations": {"container.apparmor.security.beta.kubernetes.io/a": "unconfined"}}
    allowed = {"appArmorProfile": {"type": "RuntimeDefault"}}
    made = pod({"securityContext": profile}, securityContext=profile, metadata=annotations)

    assert reported("baseline", made, standards=Standards(30)) == [
        'forbidden AppArmor profiles (pod and container "a" and annotation must not set AppArmor profile type to '
        '"Unconfined", "container.apparmor.security.beta.kubernetes.io/a="unconfined"")'
    ]
    assert reported("baseline", pod(securityContext=profile), standards=Standards(29)) == []
    assert reported("baseline", pod(securityContext=allowed), standards=Standards(30)) == []


@pytest.mark.parametrize(
    ("made", "version", "minor", "expected"),
    [
        (pod({"livenessProbe": {"httpGet": {"host": "x", "port": 1}}}), "latest", 33, False),
        (pod({"livenessProbe": {"httpGet": {"host": "x", "port": 1}}}), "latest", 34, True),
        (pod({"lifecycle": {"preStop": {"httpGet": {"host": "x", "port": 1}}}}), "v1.34", 36, True),
        (pod({"lifecycle": {"preStop": {"httpGet": {"host": "x", "port": 1}}}}), "v1.33", 36, False),
        (pod({"livenessProbe": {"httpGet": {"host": "x", "port": 1}}}), "v1.36", 29, False),
        (pod(securityContext={"seLinuxOptions": {"type": "container_engine_t"}}), "latest", 30, True),
        (pod(securityContext={"seLinuxOptions": {"type": "container_engine_t"}}), "latest", 31, False),
        (pod(securityContext={"sysctls": [{"name": "net.ipv4.tcp_rmem"}]}), "latest", 31, True),
        (pod(securityContext={"sysctls": [{"name": "net.ipv4.tcp_rmem"}]}), "latest", 32, False),
    ],
)
def test_baseline_follows_the_release(made: dict[str, Any], version: str, minor: int, expected: bool) -> None:
    assert bool(reported("baseline", made, version, Standards(minor))) is expected


@pytest.mark.row("gate.UserNamespacesPodSecurityStandards")
@pytest.mark.parametrize(
    ("standards", "relaxed"),
    [
        (Standards(29), False),
        (Standards(29, relaxes_user_namespaces=True), True),
        (Standards(34), False),
        (Standards(35), True),
    ],
)
def test_pods_in_a_user_namespace_may_run_as_root(standards: Standards, relaxed: bool) -> None:
    made = pod(secure(runAsNonRoot=False, runAsUser=0), hostUsers=False)

    findings = reported("restricted", made, standards=standards)

    assert [text for text in findings if "runAs" in text] == ([] if relaxed else findings)
    assert bool(reported("restricted", pod(secure(runAsNonRoot=False, runAsUser=0)), standards=standards))


def test_unmasked_proc_requires_a_user_namespace() -> None:
    unmasked, standards = pod(secure(procMount="Unmasked"), hostUsers=False), Standards(35)

    assert reported("baseline", unmasked, standards=standards) == []
    assert reported("baseline", pod(secure(procMount="Unmasked")), standards=standards)
    assert reported("restricted", unmasked, standards=standards)


@pytest.mark.parametrize(("minor", "allowed"), [(29, False), (31, True)])
def test_image_volumes_are_not_restricted_where_they_exist(minor: int, allowed: bool) -> None:
    made = pod(GOOD, volumes=[{"name": "v", "image": {"reference": "i"}}])

    assert (reported("restricted", made, standards=Standards(minor)) == []) is allowed


@pytest.mark.parametrize(
    ("annotations", "text"),
    [
        ({"seccomp.security.alpha.kubernetes.io/pod": "runtime/default"}, ""),
        ({"container.seccomp.security.alpha.kubernetes.io/a": "docker/default"}, ""),
        ({"container.seccomp.security.alpha.kubernetes.io/a": "localhost/x"}, ""),
        ({"container.seccomp.security.alpha.kubernetes.io/b": "unconfined"}, ""),
        ({"other": "unconfined"}, ""),
        (
            {"seccomp.security.alpha.kubernetes.io/pod": "unconfined"},
            'forbidden annotation seccomp.security.alpha.kubernetes.io/pod="unconfined"',
        ),
        (
            {f"{prefix}seccomp.security.alpha.kubernetes.io/{name}": "" for prefix, name in SECCOMP},
            'forbidden annotations container.seccomp.security.alpha.kubernetes.io/a="", '
            'seccomp.security.alpha.kubernetes.io/pod=""',
        ),
    ],
)
def test_seccomp_annotations_are_checked_in_early_versions(annotations: dict[str, str], text: str) -> None:
    made = pod(metadata={"annotations": annotations})

    assert reported("baseline", made, "v1.18") == ([f"seccompProfile ({text})"] if text else [])
    assert reported("baseline", made, "v1.19") == []


@pytest.mark.parametrize(
    ("annotations", "is_allowed"),
    [
        ({"container.apparmor.security.beta.kubernetes.io/a": ""}, True),
        ({"container.apparmor.security.beta.kubernetes.io/a": "runtime/default"}, True),
        ({"container.apparmor.security.beta.kubernetes.io/a": "localhost/x"}, True),
        ({"container.apparmor.security.beta.kubernetes.io/a": "x"}, False),
        ({"other": "x"}, True),
    ],
)
def test_apparmor_annotations_name_allowed_profiles(annotations: dict[str, str], *, is_allowed: bool) -> None:
    assert (reported("baseline", pod(metadata={"annotations": annotations})) == []) is is_allowed


def test_several_hosts_and_ports_are_listed() -> None:
    probe = {"livenessProbe": {"httpGet": {"host": "x", "port": 1}}}
    containers = [{"name": name, "ports": [{"hostPort": port}], **probe} for name, port in (("a", 80), ("b", 81))]

    found = reported("baseline", pod(containers=containers), standards=Standards(34))

    assert found == [
        'hostPort (containers "a", "b" use hostPorts 80, 81)',
        'probe or lifecycle host (containers "a", "b" use probe or lifecycle host "x")',
    ]
    assert reported("baseline", pod(containers=containers[:1]), standards=Standards(34)) == [
        'hostPort (container "a" uses hostPort 80)',
        'probe or lifecycle host (container "a" uses probe or lifecycle host "x")',
    ]


def test_restricted_versions_without_a_check_have_the_baseline_check() -> None:
    made = pod(secure(capabilities={"add": ["SYS_ADMIN"], "drop": ["ALL"]}))

    assert [text.partition(" (")[0] for text in reported("restricted", made, "v1.18")] == ["non-default capabilities"]
    assert [text.partition(" (")[0] for text in reported("restricted", made)] == ["unrestricted capabilities"]


@pytest.mark.parametrize(
    ("labels", "warned"),
    [
        ({"enforce": "baseline", "enforce-version": "v1.20"}, "baseline:v1.20"),
        ({"enforce": "baseline", "enforce-version": "v1.20", "warn-version": "v1.21"}, "baseline:v1.21"),
        ({"enforce": "restricted", "warn": "baseline"}, "baseline:latest"),
        ({"enforce": "privileged"}, "privileged:latest"),
        ({}, "privileged:latest"),
    ],
)
def test_violations_of_the_enforced_level_are_warned_about(labels: dict[str, str], warned: str) -> None:
    prefix = "pod-security.kubernetes.io/"

    policy, _ = read_policy({prefix + name: text for name, text in labels.items()}, DEFAULTS, prefix)

    assert str(policy["warn"]) == warned
