"""`python -m kvplan` is `kvplan`."""

from kvplan.cli import main

if __name__ == "__main__":
    main()
