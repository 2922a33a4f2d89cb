"""Feature gates for kube-apiserver without an effect in this server, and the reasons. Data, no I/O."""

from __future__ import annotations

from collections.abc import Mapping

_ALWAYS = "the feature is always enabled"
_INTERNAL = "about the internals of kube-apiserver; the responses do not depend on it"
_ALPHA = "an alpha feature that is off by default and not implemented"
_DEPRECATED = "it restores a deprecated behavior, which the server does not have"

_GATES: Mapping[str, tuple[str, ...]] = {
    _ALWAYS: (
        "ContextualLogging",
        "RetryGenerateName",
        "StrictCostEnforcementForVAP",
        "StrictCostEnforcementForWebhooks",
    ),
    _INTERNAL: (
        "APIServingWithRoutine",
        "BtreeWatchCache",
        "ConcurrentWatchObjectDecode",
        "ConsistentListFromCache",
        "DeclarativeValidation",
        "DeclarativeValidationBeta",
        "DeclarativeValidationTakeover",
        "DetectCacheInconsistency",
        "ResilientWatchCacheInitialization",
        "SeparateCacheWatchRPC",
        "StorageNamespaceIndex",
        "StreamingCollectionEncodingToJSON",
        "StreamingCollectionEncodingToProtobuf",
        "WatchCacheInitializationPostStartHook",
        "WatchFromStorageWithoutResourceVersion",
    ),
    _ALPHA: ("CBORServingAndStorage",),
    _DEPRECATED: ("DefaultHostNetworkHostPortsInPodTemplates", "SkipReadOnlyValidationGCE"),
    "for kube-proxy": ("AllowServiceExternalIPs",),
    "cluster IPs are allocated either in bitmaps or as IPAddresses, never in both": ("DisableAllocatorDualWrite",),
    "the fields are stored without it too, and no controller sets them": ("CRDObservedGenerationTracking",),
    "there are no alpha options for logs": ("LoggingAlphaOptions",),
    "there are no beta options for logs": ("LoggingBetaOptions",),
}

REASONS: Mapping[str, str] = {name: reason for reason, names in _GATES.items() for name in names}
"""Gates, with the reason why each has no effect."""
