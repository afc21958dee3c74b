"""What both simulators run on: virtual time, a disk that loses what was not synced, the ledger of runs."""
