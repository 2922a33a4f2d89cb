"""Validation of new pods, without their metadata."""

from __future__ import annotations

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, forbidden_value
from apiserver_stub.validation.apparmor import validate_apparmor_match
from apiserver_stub.validation.containers import validate_image
from apiserver_stub.validation.pod_annotations import keys, validate_pod_annotations, validate_seccomp_match
from apiserver_stub.validation.pod_options import PodOptions
from apiserver_stub.validation.pod_spec import validate_pod_spec


def validate_new_pod(pod: Object, options: PodOptions) -> list[Cause]:
    """Return the errors in a new pod."""
    spec = pod["spec"]
    causes = validate_pod(pod, options)
    if spec.get("ephemeralContainers"):
        causes.append(forbidden_value("spec.ephemeralContainers", "cannot be set on create"))
    if spec.get("nodeName") and spec.get("schedulingGates"):
        causes.append(forbidden_value("spec.nodeName", "cannot be set until all schedulingGates have been cleared"))
    if annotations := pod["metadata"].get("annotations"):
        causes += validate_seccomp_match(annotations, spec, "spec", options.identity)
        if "AppArmorFields" in options.features:
            causes += validate_apparmor_match(annotations, spec, "spec", keys(options.identity).apparmor_prefix)
    return causes


def validate_pod(pod: Object, options: PodOptions) -> list[Cause]:
    """Return the errors in a pod, new or changed."""
    metadata, spec = pod["metadata"], pod["spec"]
    causes: list[Cause] = []
    if annotations := metadata.get("annotations"):
        causes += validate_pod_annotations(annotations, spec, "metadata.annotations", options)
    causes += validate_pod_spec(spec, metadata.get("name") or "", "spec", options)
    if not spec.get("serviceAccountName"):
        causes += _validate_no_token_volumes(spec)
    for kind in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(kind) or ()):
            causes += validate_image(container, f"spec.{kind}[{index}]")
    return causes


def _validate_no_token_volumes(spec: Object) -> list[Cause]:
    detail = "must not be specified when serviceAccountName is not set"
    return [
        forbidden_value(f"spec.volumes[{index}].projected.sources[{number}].serviceAccountToken", detail)
        for index, volume in enumerate(spec.get("volumes") or ())
        for number, source in enumerate((volume.get("projected") or {}).get("sources") or ())
        if source.get("serviceAccountToken") is not None
    ]
