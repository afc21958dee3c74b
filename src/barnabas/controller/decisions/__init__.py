"""What the active controller decides, one file per subject: records and an answer, nothing else."""
