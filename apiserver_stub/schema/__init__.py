"""Schemas of the kinds, and everything derived from them: validation of fields, merging and field ownership."""
