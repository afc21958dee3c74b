"""What must hold after every event, and what the checks compare with."""
