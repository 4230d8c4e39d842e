"""What is told to people, as text: tables, sentences, advice. Nothing here asks or prints."""
