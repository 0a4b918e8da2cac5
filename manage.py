#!/usr/bin/env python
"""Quarterdeck's command line: `python manage.py help` lists the commands."""

import os
import select
import sys
from itertools import pairwise
from typing import TextIO


def _nobody_reads(stream: TextIO) -> bool:
    found = select.poll()
    found.register(stream, 0)
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in found.poll(0))


def main() -> None:
    """Run the command named on the command line with the project's settings."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.config.settings")
    # `up --data DIR` says where the settings find the database and the secret key, so it is read before them.
    if sys.argv[1:2] == ["up"]:
        for argument, following in pairwise([*sys.argv[2:], ""]):
            if argument == "--data" or argument.startswith("--data="):
                folder = argument.partition("=")[2] if "=" in argument else following
                if not folder.strip() or folder.startswith("--"):
                    sys.exit(f"--data names no folder but {folder!r}: say `--data DIR`.")
                os.environ["QUARTERDECK_DATA"] = folder
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line

    try:
        try:
            execute_from_command_line(sys.argv)
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except BrokenPipeError:
        # `runs | head -1`: whoever read has what they wanted, and a pipe says so by being closed.
        if not _nobody_reads(sys.stdout):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)  # what a shell tells of a program that SIGPIPE ended
    except ImproperlyConfigured as problem:
        # A wrong variable is the user's to mend: they need its name, not where our code read it.
        sys.exit(f"Configuration: {problem}")


if __name__ == "__main__":
    main()
