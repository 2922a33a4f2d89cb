"""Validation of signer names and of the names of cluster trust bundles."""

from __future__ import annotations

from apiserver_stub.apimachinery.status import Cause, invalid_value, quote, required, too_long
from nodeagent.base.names import label_problems, subdomain_problems

_DOMAIN_LIMIT, _NAME_LIMIT = 253, 571


def validate_signer_name(name: str, field: str) -> list[Cause]:
    """Return the errors in the name of a signer, a domain and a path."""
    if not name:
        return [required(field)]
    domain, slash, path = name.partition("/")
    if not slash or "/" in path:
        detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        return [invalid_value(field, name, detail)]
    causes = [too_long(field, _DOMAIN_LIMIT)] if len(domain) > _DOMAIN_LIMIT else []
    for part, problems_of in ((domain, label_problems), (path, subdomain_problems)):
        labels = part.split(".")
        wrong = next((label for label in labels if problems_of(label)), None)
        if wrong is not None:
            details = [f"validating label {quote(wrong)}: {problem}" for problem in problems_of(wrong)]
            causes += [invalid_value(field, part, detail) for detail in details]
        if part is domain and len(labels) < 2:
            detail = "should be a domain with at least two segments separated by dots"
            causes.append(invalid_value(field, part, detail))
    if len(name) > _NAME_LIMIT:
        causes.append(too_long(field, _NAME_LIMIT))
    return causes


def trust_bundle_name_problems(name: str, signer: str = "") -> list[str]:
    """Return the reasons why *name* is not a valid name of a trust bundle of *signer*, or of one without signer."""
    if not signer:
        if ":" in name:
            return ['ClusterTrustBundle without signer name must not have ":" in its name']
        return subdomain_problems(name)
    prefix = f"{signer.replace('/', ':')}:"
    if not name.startswith(prefix):
        return [f"ClusterTrustBundle for signerName {signer} must be named with prefix {prefix}"]
    return subdomain_problems(name.removeprefix(prefix))
