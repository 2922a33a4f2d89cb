"""Settings of the node that only flags set: paths, names and switches."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import field

from nodeagent.base.duration import Duration
from nodeagent.base.identity import Identity
from nodeagent.base.release import Release
from nodeagent.base.structs import Struct


class NodeSettings(Struct, frozen=True, kw_only=True):
    """Flags without a field in the configuration. Empty text means that the flag is not set."""

    config: str = ""
    """The configuration file; spec: flag.config."""
    config_dir: str = ""
    """Directory of drop-ins, ``*.conf``."""
    plugin_config: str = ""
    """File with the settings of plugins."""
    compatibility_version: Release | None = None
    """Release that determines feature gates, defaults and the reported version; unset: that of the API server."""
    kubeconfig: str = ""
    """API access; without it (and without ``bootstrap_kubeconfig``) the node is standalone."""
    bootstrap_kubeconfig: str = ""
    """API access that suffices to request a client certificate."""
    node_name: str = ""
    """``--hostname-override``, else the kernel's host name; lower case."""
    node_ips: tuple[str, ...] = ()
    """One address, or one of each family; ``0.0.0.0`` or ``::`` only chooses the family."""
    node_labels: Mapping[str, str] = field(default_factory=dict)
    root_dir: str = "/var/lib/kubelet"
    """Directory of pods, checkpoints and plugin sockets; other software on a node expects the default."""
    cert_dir: str = "/var/lib/kubelet/pki"
    """Directory of generated certificates; spec: flag.cert-dir."""
    image_credential_provider_config: str = ""
    """spec: flag.image-credential-provider-config"""
    image_credential_provider_bin_dir: str = ""
    """spec: flag.image-credential-provider-bin-dir"""
    runtime_cgroups: str = ""
    """Cgroup of the container runtime."""
    pod_infra_container_image: str = ""
    """Sandbox image that image collection keeps."""
    cloud_provider: str = ""
    """Empty or ``external``."""
    register_schedulable: bool = True
    """False registers the node as unschedulable."""
    lock_file: str = ""
    exit_on_lock_contention: bool = False
    minimum_container_ttl_duration: Duration = field(default_factory=Duration)
    maximum_dead_containers_per_container: int = 1
    maximum_dead_containers: int = -1
    disabled_plugins: tuple[str, ...] = ()
    """Values of ``--disable-plugin``."""
    identity: Identity = field(default_factory=Identity)
    """API domains, namespaces and component name."""

    @property
    def standalone(self) -> bool:
        """True if the node has no API server."""
        return not (self.kubeconfig or self.bootstrap_kubeconfig)
