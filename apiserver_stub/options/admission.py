"""What changes or refuses requests after they are authorized (spec: admission.*)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from apiserver_stub.options import values
from apiserver_stub.options.declare import Extend, Group

TITLE = "Admission"
PLUGINS = {
    "AlwaysAdmit": False,
    "NamespaceAutoProvision": False,
    "NamespaceLifecycle": True,
    "NamespaceExists": False,
    "SecurityContextDeny": False,
    "LimitPodHardAntiAffinityTopology": False,
    "LimitRanger": True,
    "ServiceAccount": True,
    "NodeRestriction": False,
    "TaintNodesByCondition": True,
    "AlwaysPullImages": False,
    "ImagePolicyWebhook": False,
    "PodSecurity": True,
    "PodNodeSelector": False,
    "Priority": True,
    "DefaultTolerationSeconds": True,
    "PodTolerationRestriction": False,
    "EventRateLimit": False,
    "ExtendedResourceToleration": False,
    "PersistentVolumeLabel": False,
    "DefaultStorageClass": True,
    "StorageObjectInUseProtection": True,
    "OwnerReferencesPermissionEnforcement": False,
    "PersistentVolumeClaimResize": True,
    "RuntimeClass": True,
    "CertificateApproval": True,
    "CertificateSigning": True,
    "ClusterTrustBundleAttest": True,
    "CertificateSubjectRestriction": True,
    "DefaultIngressClass": True,
    "DenyServiceExternalIPs": False,
    "MutatingAdmissionWebhook": True,
    "ValidatingAdmissionPolicy": True,
    "ValidatingAdmissionWebhook": True,
    "ResourceQuota": True,
    "AlwaysDeny": False,
}
"""Every plugin in the order in which they are asked, and whether it is on by default."""
_DEPRECATED = ("AlwaysAdmit", "AlwaysDeny", "PersistentVolumeLabel", "SecurityContextDeny")


@dataclass(frozen=True)
class AdmissionOptions:
    admission_control_config_file: Path | None = None
    enable_admission_plugins: tuple[str, ...] = ()
    disable_admission_plugins: tuple[str, ...] = ()
    allow_privileged: bool = False
    default_not_ready_toleration_seconds: int = 300
    default_unreachable_toleration_seconds: int = 300

    @property
    def admission_plugins(self) -> list[str]:
        """The plugins that are on, in order."""
        on, off = self.enable_admission_plugins, self.disable_admission_plugins
        return [name for name, default in PLUGINS.items() if name in on or (default and name not in off)]


def declare(group: Group) -> None:
    group.add("admission-control-config-file", Path, "Configuration of admission plugins.")
    group.add(
        "enable-admission-plugins",
        values.strings,
        f"Plugins to switch on besides {', '.join(name for name, on in PLUGINS.items() if on)}. "
        f"Also known: {', '.join(name for name, on in PLUGINS.items() if not on)}.",
        action=Extend,
    )
    group.add("disable-admission-plugins", values.strings, "Plugins to switch off.", action=Extend)
    group.add("allow-privileged", values.boolean, "Allow privileged containers. Default false.")
    for condition in ("not-ready", "unreachable"):
        text = f"How long pods without a toleration of their own stay on a node that is {condition}. Default 300."
        group.add(f"default-{condition}-toleration-seconds", values.integer, text)


def check(options: AdmissionOptions) -> Iterator[str]:
    on, off = options.enable_admission_plugins, options.disable_admission_plugins
    for option, names in (("enable", on), ("disable", off)):
        for name in dict.fromkeys(names):
            if name not in PLUGINS:
                yield f'{option}-admission-plugins plugin "{name}" is unknown'
    if both := [name for name in PLUGINS if name in on and name in off]:
        yield f"[{' '.join(both)}] in enable-admission-plugins and disable-admission-plugins overlapped"


def warnings(options: AdmissionOptions) -> Iterator[str]:
    for name in _DEPRECATED:
        if name in options.enable_admission_plugins:
            yield f"{name} admission controller is deprecated. It will be removed in a future version."
