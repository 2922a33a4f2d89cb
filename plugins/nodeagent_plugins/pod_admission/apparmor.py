"""Admission by AppArmor profiles: the host must be able to enforce them."""

from __future__ import annotations

from pathlib import Path

from nodeagent import hookimpl
from nodeagent.contracts.context import AgentContext
from nodeagent.contracts.pods import Rejection
from nodeagent.model.apparmor import LOCALHOST, UNCONFINED, apparmor_profile, apparmor_profiles
from nodeagent.model.pod import Pod
from nodeagent_plugins.pod_admission.running import is_running

_SYSTEM = Path("/sys")
_REASON = "AppArmor"


class AppArmorAdmission:
    """Rejects pods with AppArmor profiles if the host cannot enforce them; pods that already run keep running.

    The host needs AppArmor, and until release 1.30 the feature gate (spec: gate.AppArmor).

    :param system: root of sysfs.
    """

    def __init__(self, context: AgentContext, system: Path = _SYSTEM) -> None:
        self._context = context
        self._obstacle = "" if is_enabled(system) else "AppArmor is not enabled on the host"
        if not context.gates.enabled("AppArmor"):
            self._obstacle = "AppArmor disabled by feature-gate"

    @hookimpl
    async def nodeagent_admit_pod(self, pod: Pod) -> Rejection | None:
        if not any(profile.type != UNCONFINED for profile in apparmor_profiles(pod)):
            return None
        problem = self._obstacle or _problem(pod)
        if not problem or await is_running(self._context, pod):
            return None
        return Rejection(_REASON, f"Cannot enforce AppArmor: {problem}")


def is_enabled(system: Path = _SYSTEM) -> bool:
    """Return whether the kernel enforces AppArmor profiles."""
    try:
        state = (system / "module/apparmor/parameters/enabled").read_text()
    except OSError:
        return False
    return state.startswith("Y") and (system / "kernel/security/apparmor").is_dir()


def _problem(pod: Pod) -> str:
    for _, container in pod.containers():
        profile = apparmor_profile(pod, container)
        if profile is not None and profile.type == LOCALHOST and not (profile.localhost_profile or "").strip():
            return f'invalid empty AppArmor profile name of container "{container.name}"'
    return ""
