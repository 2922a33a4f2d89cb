"""Validation of ``tokenAttributes`` in the credential provider configuration. No I/O."""

from __future__ import annotations

from nodeagent.base import identity
from nodeagent.base.gates import FeatureGates
from nodeagent.base.names import qualified_name_problems
from nodeagent.config.codec import Report
from nodeagent.config.features import enabled_since
from nodeagent.contracts.configuration import CredentialProvider, ServiceAccountTokenAttributes

GATE = "NodeAgentServiceAccountTokenForCredentialProviders"
CACHE_TYPES = ("ServiceAccount", "Token")
_REQUIRED, _OPTIONAL = "requiredServiceAccountAnnotationKeys", "optionalServiceAccountAnnotationKeys"


def gate_problem(gates: FeatureGates) -> str:
    """Return the rule that tokens violate while their feature gate is disabled; empty if it is enabled."""
    if gates.enabled(GATE):
        return ""
    if gates.switched_off(GATE):
        return f"needs the feature gate {GATE}"
    return (
        f"needs the feature gate {GATE}, enabled by default since release {enabled_since(GATE)} "
        "(--compatibility-version)"
    )


def check_token_attributes(provider: CredentialProvider, path: str, report: Report) -> None:
    """Report violated rules of a provider's ``tokenAttributes`` at *path*."""
    attributes = provider.token_attributes
    if attributes is None:
        return
    version = f"{identity.current().credential_group}/v1"
    if provider.api_version != version:
        report(path, None, f"requires the apiVersion {version} of the provider")
    if not attributes.service_account_token_audience:
        report(f"{path}.serviceAccountTokenAudience", None, "must be set")
    if not attributes.cache_type:
        report(f"{path}.cacheType", None, f"must be set to one of {', '.join(CACHE_TYPES)}")
    elif attributes.cache_type not in CACHE_TYPES:
        report(f"{path}.cacheType", attributes.cache_type, f"must be one of {', '.join(CACHE_TYPES)}")
    if attributes.require_service_account is None:
        report(f"{path}.requireServiceAccount", None, "must be set")
    elif not attributes.require_service_account and attributes.required_service_account_annotation_keys:
        report(f"{path}.{_REQUIRED}", None, "must be empty if requireServiceAccount is false")
    _check_annotation_keys(attributes, path, report)


def _check_annotation_keys(attributes: ServiceAccountTokenAttributes, path: str, report: Report) -> None:
    required = attributes.required_service_account_annotation_keys
    optional = attributes.optional_service_account_annotation_keys
    for name, keys in ((_REQUIRED, required), (_OPTIONAL, optional)):
        for index, key in enumerate(keys):
            where = f"{path}.{name}[{index}]"
            # Annotation keys are qualified names whose prefix may have capital letters.
            for problem in qualified_name_problems(key.lower()):
                report(where, key, problem)
            if key in keys[:index]:
                report(where, key, "is already listed")
            elif name == _OPTIONAL and key in required:
                report(where, key, "must not be both required and optional")
