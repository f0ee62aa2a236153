"""What the tests of the built site have in common."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def built() -> None:
    """Without a network its tools may not be there; scripts/setup_site.sh says so in a test of its own."""
    if not (Path(os.environ["SITE_TEST_FOLDER"]) / "index.html").is_file():
        pytest.skip("the site was not built: the packages could not be fetched")
