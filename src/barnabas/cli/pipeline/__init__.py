"""`barnabas pipeline`: Spark and the log. `pipeline` has the verbs, `jobs` runs and watches jobs."""
