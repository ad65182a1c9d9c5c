"""`python -m choroid` is the `choroid` command."""

import sys

from choroid.cli import main

sys.exit(main())
