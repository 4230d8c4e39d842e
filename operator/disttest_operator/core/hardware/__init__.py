"""Signs of broken hardware in logs and conditions: known ones, and rules of the configuration."""
