"""Log directories of a node: which logs they hold, how those are opened, made and closed, their checkpoints."""
