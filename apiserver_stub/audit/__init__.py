"""The audit trail: who asked for what, when, and what came of it, as the policy file wants it."""
