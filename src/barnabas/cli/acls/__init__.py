"""`barnabas acls`: `acls` has the verbs, `flags` what they take."""
