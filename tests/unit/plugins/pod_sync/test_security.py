"""Tests for security contexts."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodeagent.contracts.runtime import Image, NamespaceMode, ProfileType
from nodeagent.errors import ContainerError
from nodeagent.testing import make_container, make_pod
from nodeagent_plugins.pod_sync.security import (
    MASKED_PATHS,
    READONLY_PATHS,
    container_security,
    sandbox_security,
)

ROOT_IMAGE = Image("i", uid=0)


def secure(context=None, pod_context=None, image=ROOT_IMAGE, *, seccomp_default=False, annotations=None, **options):
    container = make_container("main", security_context=context)
    pod = make_pod(containers=[container], security_context=pod_context or {}, annotations=annotations)
    return container_security(
        pod, container, image, seccomp_default=seccomp_default, seccomp_root=Path("/root/seccomp"), **options
    )


def test_container_settings_override_those_of_the_pod():
    pod_wide = {"runAsUser": 1, "runAsGroup": 2, "fsGroup": 5, "supplementalGroups": [6]}

    assert secure({"runAsUser": 10}, pod_wide).run_as_user == 10
    shared = secure(None, pod_wide)
    assert (shared.run_as_user, shared.run_as_group, shared.supplemental_groups) == (1, 2, (5, 6))


def test_image_user_is_the_default():
    assert secure(image=Image("i", uid=7)).run_as_user == 7
    named = secure(image=Image("i", username="web"))
    assert (named.run_as_user, named.run_as_username) == (None, "web")


@pytest.mark.parametrize(
    ("context", "image", "text"),
    [
        ({"runAsNonRoot": True, "runAsUser": 0}, Image("i", uid=5), "runAsUser breaks non-root policy"),
        ({"runAsNonRoot": True}, Image("i", uid=0), "image will run as root"),
        ({"runAsNonRoot": True}, Image("i", username="web"), "non-numeric user"),
        ({"runAsNonRoot": True}, Image("i", uid=1 << 32), "image has an invalid user"),
    ],
)
def test_root_is_rejected_with_run_as_non_root(context, image, text):
    with pytest.raises(ContainerError, match=text) as caught:
        secure(context, image=image)
    assert caught.value.reason == "CreateContainerConfigError"


def test_non_root_user_is_accepted():
    assert secure({"runAsNonRoot": True}, image=Image("i", uid=5)).run_as_user == 5
    assert secure({"runAsNonRoot": True}, image=Image("i", uid=5, username="web")).run_as_user == 5
    assert secure({"runAsNonRoot": False}, {"runAsNonRoot": True}).run_as_user == 0


@pytest.mark.parametrize(
    ("own", "pod_wide", "default", "expected"),
    [
        (None, None, False, (ProfileType.UNCONFINED, "")),
        (None, None, True, (ProfileType.RUNTIME_DEFAULT, "")),
        ({"type": "Unconfined"}, None, True, (ProfileType.UNCONFINED, "")),
        (None, {"type": "RuntimeDefault"}, False, (ProfileType.RUNTIME_DEFAULT, "")),
        (
            {"type": "Localhost", "localhostProfile": "a/b.json"},
            None,
            False,
            (ProfileType.LOCALHOST, "/root/seccomp/a/b.json"),
        ),
    ],
)
def test_seccomp_profiles(own, pod_wide, default, expected):
    result = secure(
        {"seccompProfile": own} if own else None,
        {"seccompProfile": pod_wide} if pod_wide else None,
        seccomp_default=default,
    )

    assert (result.seccomp.type, result.seccomp.path) == expected


@pytest.mark.parametrize("name", ["", "../escape", "/etc/passwd"])
def test_localhost_profile_must_be_below_its_directory(name):
    with pytest.raises(ContainerError):
        secure({"seccompProfile": {"type": "Localhost", "localhostProfile": name}})


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("runtime/default", (ProfileType.RUNTIME_DEFAULT, "")),
        ("unconfined", (ProfileType.UNCONFINED, "")),
        ("localhost/mine", (ProfileType.LOCALHOST, "mine")),
    ],
)
def test_apparmor_annotation(value, expected):
    result = secure(annotations={"container.apparmor.security.beta.kubernetes.io/main": value})

    assert result.apparmor is not None
    assert (result.apparmor.type, result.apparmor.path) == expected
    assert secure().apparmor is None


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        ({"type": "RuntimeDefault"}, (ProfileType.RUNTIME_DEFAULT, "")),
        ({"type": "Unconfined"}, (ProfileType.UNCONFINED, "")),
        ({"type": "Localhost", "localhostProfile": "strict"}, (ProfileType.LOCALHOST, "strict")),
    ],
)
def test_apparmor_field(profile, expected):
    result = secure({"appArmorProfile": profile})

    assert result.apparmor is not None
    assert (result.apparmor.type, result.apparmor.path) == expected


@pytest.mark.parametrize("profile", [{"type": "Localhost"}, {"type": "Other"}])
def test_invalid_apparmor_field_is_an_error(profile):
    with pytest.raises(ContainerError, match="invalid AppArmor profile"):
        secure({"appArmorProfile": profile})


def test_proc_is_masked_by_default():
    assert secure({"procMount": "Unmasked"}).masked_paths == MASKED_PATHS
    assert secure().readonly_paths == READONLY_PATHS
    assert secure({"procMount": "Unmasked"}, unmask_proc=True).masked_paths == ()


def test_privileges():
    result = secure(
        {
            "privileged": True,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"add": ["NET_ADMIN"], "drop": ["ALL"]},
        }
    )

    assert result.privileged and result.no_new_privs and result.readonly_rootfs
    assert (result.capabilities_add, result.capabilities_drop) == (("NET_ADMIN",), ("ALL",))


def test_ephemeral_container_joins_its_target():
    namespaces = secure(target_id="abc").namespaces

    assert (namespaces.pid, namespaces.target_id) == (NamespaceMode.TARGET, "abc")


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, (NamespaceMode.POD, NamespaceMode.CONTAINER, NamespaceMode.POD)),
        ({"host_network": True}, (NamespaceMode.NODE, NamespaceMode.CONTAINER, NamespaceMode.POD)),
        ({"host_pid": True}, (NamespaceMode.POD, NamespaceMode.NODE, NamespaceMode.POD)),
        ({"host_ipc": True}, (NamespaceMode.POD, NamespaceMode.CONTAINER, NamespaceMode.NODE)),
        ({"share_process_namespace": True}, (NamespaceMode.POD, NamespaceMode.POD, NamespaceMode.POD)),
    ],
)
def test_namespaces(spec, expected):
    namespaces = sandbox_security(make_pod(**spec)).namespaces

    assert (namespaces.network, namespaces.pid, namespaces.ipc) == expected


def test_sandbox_is_privileged_if_any_container_is():
    pod = make_pod(containers=["a", make_container("b", security_context={"privileged": True})])

    assert sandbox_security(pod).privileged
    assert not sandbox_security(make_pod()).privileged


@pytest.mark.parametrize(
    ("own", "pod_wide", "level"),
    [(None, {"level": "pod"}, "pod"), ({"level": "own"}, {"level": "pod"}, "own"), ({"level": "own"}, None, "own")],
)
def test_selinux_options_of_the_container_override_those_of_the_pod(own, pod_wide, level):
    security = secure({"seLinuxOptions": own} if own else None, {"seLinuxOptions": pod_wide} if pod_wide else None)

    assert security.selinux.level == level


def test_highest_user_id_is_accepted_with_run_as_non_root():
    assert secure({"runAsNonRoot": True}, image=Image("i", uid=(1 << 31) - 1)).run_as_user == (1 << 31) - 1
