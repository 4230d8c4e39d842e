"""What a gang was doing when a case did not end: collected, compared, described."""
