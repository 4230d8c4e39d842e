"""Text for the screen: tables, descriptions, live progress."""
