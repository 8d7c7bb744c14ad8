"""`hornbeam devices`: what this machine offers."""

from __future__ import annotations

from hornbeam.cli import options

EXAMPLES = (
    "hornbeam devices",
    "hornbeam devices --json",
)
"""Shown at the end of the help."""


def devices(json: options.Json = False) -> None:
    """List the devices of this machine, and why one cannot be used."""
    from hornbeam.backends.devices import devices as list_devices
    from hornbeam.cli.printing import print_json, print_table

    found = list_devices()
    if json:
        keys = ("name", "usable", "description", "compute_units")
        print_json([{key: getattr(info, key) for key in keys} for info in found])
        return
    print_table(["device", "usable", "what it is"], [[info.name, info.usable, info.description] for info in found])
