"""What a gang was doing when a case did not end: gathered from ranks that may not answer, compared, put into words."""
