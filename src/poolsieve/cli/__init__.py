"""The `poolsieve` command: parses, calls the library, prints."""

from poolsieve.cli.main import main

__all__ = ["main"]
