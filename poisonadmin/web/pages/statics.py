"""Collects and names the front-end files."""

from django.contrib.staticfiles.apps import StaticFilesConfig
from whitenoise.storage import CompressedManifestStaticFilesStorage


class OnlyWhatPagesUse(StaticFilesConfig):
    """Leaves out of `collectstatic` what Tabler ships and no page loads: 21 MB become one style sheet."""

    ignore_patterns = [  # noqa: RUF012  (an instance variable to the stubs)
        *StaticFilesConfig.ignore_patterns,
        "*.map",
        "*.rtl*",
        "tabler-*",
        "tabler.css",
        "*.cjs.js",
        "*.d.ts",
    ]


class Storage(CompressedManifestStaticFilesStorage):  # type: ignore[misc]
    """Names files by content. Source maps are not followed: Tabler names one that is not collected."""

    patterns = (("*.css", (r"""(?P<matched>url\(['"]{0,1}\s*(?P<url>.*?)["']{0,1}\))""",)),)
    manifest_strict = False

    def stored_name(self, name: str) -> str:
        """Return the name with its content hash; the plain name where nothing was collected, as in tests of pages."""
        return str(self.hashed_files.get(self.hash_key(self.clean_name(name)), name))
