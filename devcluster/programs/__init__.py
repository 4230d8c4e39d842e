"""Programs from Go modules and Debian packages, built or unpacked into the cache."""
