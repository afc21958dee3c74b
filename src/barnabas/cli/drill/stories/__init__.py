"""One file for each drill: `play(stage)` is the story as an operator would type it."""
