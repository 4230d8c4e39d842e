"""What goes to users, and what must be known of it: version, pins, licences, vulnerabilities, files of a release."""
