"""Values with a schema: validation, fields, comparison and merge for server-side apply."""
