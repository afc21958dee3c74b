"""The command line: one file per noun, loaded only when it is named.

`main` finds the noun and turns errors into two lines and an exit code (`exits`); a noun's file says its
flags (`add_arguments`) and does the work (`run`) through `client`; `output` prints tables and JSON.
"""

from __future__ import annotations
