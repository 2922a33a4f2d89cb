"""Names of the product in API objects and on disk: the placeholders of the specification.

Shared by both binaries. The defaults are those of Kubernetes, so unmodified clients, servers, runtimes and
credential providers work; ``--api-domain`` and related flags change them.
"""

from __future__ import annotations

from nodeagent.base.structs import Struct


class Identity(Struct, frozen=True):
    """All names that a deployment may change.

    spec: the placeholders in angle brackets of all specifications.
    """

    api_domain: str = "k8s.io"
    """Domain part of API group names: ``events.<api_domain>``."""
    label_domain: str = "kubernetes.io"
    """``<platform_domain>`` in labels, annotations, secret types and signer names."""
    media_domain: str = "kubernetes"
    """``<platform_domain>`` in media types: ``application/vnd.<media_domain>.protobuf``."""
    platform_dir: str = "kubernetes"
    """``<platform_dir>`` in file system paths."""
    system_namespace: str = "kube-system"
    node_lease_namespace: str = "kube-node-lease"
    hint_chain: str = "KUBE-IPTABLES-HINT"
    """Firewall chain that other components check for."""
    component: str = "kubelet"
    """Name of the agent in events, user agents, reasons and file names."""

    @property
    def protobuf_media_type(self) -> str:
        return f"application/vnd.{self.media_domain}.protobuf"

    @property
    def client_signer(self) -> str:
        """Signer of the client certificates of nodes."""
        return self.label("kube-apiserver-client-kubelet")

    @property
    def serving_signer(self) -> str:
        """Signer of the serving certificates of nodes."""
        return self.label("kubelet-serving")

    @property
    def config_group(self) -> str:
        """Group of the configuration kinds in their native form."""
        return f"nodeagent.config.{self.api_domain}"

    @property
    def kubelet_config_group(self) -> str:
        """Group of the ``KubeletConfiguration`` format of the same kinds."""
        return f"kubelet.config.{self.api_domain}"

    @property
    def credential_group(self) -> str:
        """Group of the exec protocol, as existing provider executables send and expect it."""
        return f"credentialprovider.kubelet.{self.api_domain}"

    def group(self, name: str) -> str:
        """Return the full name of the API group *name*; the core group is the empty string."""
        return f"{name}.{self.api_domain}" if name else ""

    def label(self, name: str, prefix: str = "") -> str:
        """Return a label or annotation key: ``label("hostname")``, ``label("instance-type", "node")``."""
        return f"{prefix}.{self.label_domain}/{name}" if prefix else f"{self.label_domain}/{name}"


class _Holder:
    identity = Identity()


def current() -> Identity:
    """Return the effective identity."""
    return _Holder.identity


def configure(identity: Identity) -> None:
    """Set the identity of the process; called once, before any other component is created."""
    _Holder.identity = identity
