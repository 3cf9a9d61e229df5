"""`python -m sqlengine` is the command line."""

import sys

from sqlengine.cli.main import main

sys.exit(main())
