"""The sections of a report, one module each: functions of `Material` that return what stands in them."""
