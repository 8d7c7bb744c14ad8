"""The commands, a module each. They import what they need when they run, so that help is there at once."""
