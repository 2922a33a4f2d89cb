"""The audit trail: who asked for what, when, and what came of it, as the policy file wants it."""

from apiserver_stub.audit.policy import AuditError, Level, Policy, load_policy
from apiserver_stub.audit.trail import Audit, Trail

__all__ = ["Audit", "AuditError", "Level", "Policy", "Trail", "load_policy"]
