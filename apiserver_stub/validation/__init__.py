"""Validation rules that several kinds share. No I/O; every rule returns its errors as causes with a field path."""
