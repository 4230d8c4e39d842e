"""Signs of broken hardware in logs and conditions: built-in rules, and rules of users."""
