"""`python -m choroid` is the `choroid` command."""

import sys

from choroid.common.child import keep_safe_path

keep_safe_path()  # `-m` has put the working directory first: before anything is imported that may lie there too

from choroid.cli import main  # noqa: E402  (after the above)

sys.exit(main())
