"""Releases: version, pins, licences, known vulnerabilities, and the files that users get."""
