"""`python -m vizdist` is the vizdist command."""

import sys

from vizdist.cli import main

if __name__ == "__main__":
    sys.exit(main())
