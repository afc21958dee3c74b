"""Parts of a consumer that need no socket and no clock: its positions, its requests, what it fetched."""
