"""The command `hornbeam`: a module a command in commands/, put together in app.py."""
