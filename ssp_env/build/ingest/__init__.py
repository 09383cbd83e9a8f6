"""Corpora from what people have: Wikipedia dumps, published passage files, pages, folders of text.

``build_corpus`` reads them all; ``get_vital`` fetches a small real corpus. The formats are listed in ``formats``.
Nothing here is imported by the environments.
"""

from ssp_env.build.ingest.folder import BuildOptions, build_corpus
from ssp_env.build.ingest.vital import get_vital

__all__ = ["BuildOptions", "build_corpus", "get_vital"]
