"""`python -m tracer` is the tracer command."""

import sys

from tracer.cli import main

if __name__ == "__main__":
    sys.exit(main())
