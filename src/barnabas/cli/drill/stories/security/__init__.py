"""Stories of certificates and logins."""
