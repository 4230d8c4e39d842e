"""Schedules of CronJobs: cron expressions and expected runs."""
