"""Default values of the kinds: one table per kind or shared part, applied to objects from clients. No I/O."""
