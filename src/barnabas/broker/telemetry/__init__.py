"""Telemetry of clients (KIP-714).

`subscriptions`: who shall send which metrics; `instances`: when each client may; `otlp`: what a push says;
`pushed`: what is kept of it; `telemetry`: all of it together.
"""
