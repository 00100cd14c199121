"""``python -m percdl``: the command line, if the command ``percdl`` is not on the path."""

from percdl.cli import main

if __name__ == "__main__":
    main()
