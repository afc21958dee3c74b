"""What both simulators share: virtual time, a disk that loses what was not synced, faults, mutants, reports."""
