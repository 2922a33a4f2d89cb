"""Generated definitions of the external signer of service account tokens."""
