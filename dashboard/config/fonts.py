"""Where the fonts lie: in installed packages, served under ``fonts/`` beside our own static files."""

from __future__ import annotations

from importlib.resources import files

FONTS = {"fonts/geist": "fontpkg_geist", "fonts/jetbrains-mono": "fontpkg_jetbrains_mono"}


def font_folders() -> list[tuple[str, str]]:
    """Return (prefix, folder) of each font package, as STATICFILES_DIRS takes them."""
    return [(prefix, str(files(package) / "files")) for prefix, package in FONTS.items()]
