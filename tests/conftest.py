"""What all tests need of the process they run in."""

from __future__ import annotations

import signal

# A shell that starts the suite in the background has it ignore Ctrl-C, and every child inherits that; tests that
# interrupt a node or the demo mean the ordinary case.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
