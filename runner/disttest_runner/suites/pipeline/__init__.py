"""What the suite `pipeline-schedules` is made of: models, plans and their simulation, one rank's part of a training."""
