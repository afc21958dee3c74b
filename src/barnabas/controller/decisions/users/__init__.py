"""Decisions about who somebody is: SCRAM users, delegation tokens."""
