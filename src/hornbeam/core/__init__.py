"""What everything stands on: errors, the log, record types, exact arithmetic, random choices."""
