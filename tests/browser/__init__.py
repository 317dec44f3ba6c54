"""Tests in a real browser; a package, so that Chromium ends with the last of them."""
