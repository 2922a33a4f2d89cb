"""Tests for the copies of AppArmor profiles between fields and annotations."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.validation.apparmor import copy_apparmor_profiles

PREFIX = "container.apparmor.security.beta.kubernetes.io/"
RUNTIME = {"type": "RuntimeDefault"}


def copied(
    annotations: dict[str, str] | None, *, to_annotations: bool = True, **spec: Any
) -> tuple[dict[str, str] | None, Any]:
    """Return the annotations and the security context of the container."""
    metadata: dict[str, Any] = {"name": "web"}
    if annotations is not None:
        metadata["annotations"] = annotations
    pod = {"metadata": metadata, "spec": {"containers": [{"name": "c"}], **spec}}
    copy_apparmor_profiles(pod, PREFIX, to_annotations=to_annotations)
    return pod["metadata"].get("annotations"), pod["spec"]["containers"][0].get("securityContext")


@pytest.mark.parametrize("annotations", [None, {}, {"a": "b"}])
@pytest.mark.parametrize("to_annotations", [True, False])
def test_profile_of_the_pod_is_copied_to_the_annotations(
    annotations: dict[str, str] | None, to_annotations: bool
) -> None:
    found, context = copied(annotations, to_annotations=to_annotations, securityContext={"appArmorProfile": RUNTIME})

    expected = {**(annotations or {}), f"{PREFIX}c": "runtime/default"} if to_annotations else annotations
    assert (found, context) == (expected, None)


@pytest.mark.parametrize(
    ("annotation", "profile"),
    [
        ("runtime/default", RUNTIME),
        ("unconfined", {"type": "Unconfined"}),
        ("localhost/a", {"type": "Localhost", "localhostProfile": "a"}),
        ("other", None),
    ],
)
def test_annotation_is_copied_to_the_container(annotation: str, profile: Any) -> None:
    annotations = {f"{PREFIX}c": annotation, "a": "b"}

    found, context = copied(annotations)

    assert (found, context) == (annotations, {"appArmorProfile": profile} if profile else None)


def test_other_fields_of_the_security_context_are_kept() -> None:
    containers = [{"name": "c", "securityContext": {"runAsUser": 1}}]

    _, context = copied({f"{PREFIX}c": "unconfined"}, containers=containers)

    assert context == {"runAsUser": 1, "appArmorProfile": {"type": "Unconfined"}}


def test_annotation_does_not_replace_a_profile() -> None:
    containers = [{"name": "c", "securityContext": {"appArmorProfile": RUNTIME}}]

    assert copied({f"{PREFIX}c": "unconfined"}, containers=containers)[1] == {"appArmorProfile": RUNTIME}
    assert copied({f"{PREFIX}c": "runtime/default"}, securityContext={"appArmorProfile": RUNTIME})[1] is None


def test_pods_of_windows_have_no_profiles() -> None:
    assert copied({f"{PREFIX}c": "unconfined"}, os={"name": "windows"}) == ({f"{PREFIX}c": "unconfined"}, None)
