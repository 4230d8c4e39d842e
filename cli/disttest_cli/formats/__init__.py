"""What a report is turned into for people and other programs: pure functions of a Subject."""
