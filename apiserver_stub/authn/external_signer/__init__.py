"""External signer of service account tokens: a process on a Unix socket that holds the keys."""
