"""Frames that no client would send, beside a client that behaves: `make fuzz FRAMES= SEED=`."""
