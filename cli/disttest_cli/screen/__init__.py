"""Where output goes: terminal, live view, formats of objects and reports."""
