"""Whole pages with sections, for browsing: the records and the file they are kept in."""

from ssp_env.pages.records import Page, Section
from ssp_env.pages.store import PageStore, open_pages

__all__ = ["Page", "PageStore", "Section", "open_pages"]
