"""Validation rules of the configuration, one module per subject. No I/O."""
