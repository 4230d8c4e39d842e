"""When a CronJob should run: cron expressions and expected runs."""
