"""The data plane's bytes as rows: what Fetch asks and is told, without an object for each partition."""
