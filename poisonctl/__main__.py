"""Runs the commands: `python -m poisonctl`."""

from poisonctl.commands import main

main()
