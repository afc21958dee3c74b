"""TLS at a node's listeners: `identity` has the certificates, `session` is between socket and connection."""
