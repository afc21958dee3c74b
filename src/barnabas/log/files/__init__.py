"""Small files of a log directory and of one log, the disk beneath, and the threads that sync and delete."""
