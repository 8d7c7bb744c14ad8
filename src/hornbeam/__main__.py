"""`python -m hornbeam`: the command line."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command that the arguments name."""
    try:
        import typer  # noqa: F401
    except ImportError:
        sys.stderr.write("hornbeam: the command line takes typer: pip install 'hornbeam[cli]'\n")
        sys.exit(2)
    from hornbeam.cli.app import app

    app(prog_name="hornbeam")


if __name__ == "__main__":
    main()
