"""What a configuration must keep, a module a subject. Pure: nothing here looks at the machine."""
