"""What the API server returned: decoding, the objects that are kept, the evidence on one run."""
