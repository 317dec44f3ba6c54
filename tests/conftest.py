"""For every test: one torch thread, since test processes share two cores with what they start.

For the same reason an example of a property may take as long as it likes.
"""

import os

from hypothesis import settings

os.environ.setdefault("OMP_NUM_THREADS", "1")
settings.register_profile("shared machine", deadline=None)
settings.load_profile("shared machine")
