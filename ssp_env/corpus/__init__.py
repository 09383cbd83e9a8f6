"""Passages and pages with random access: files on disk, or records in memory."""

from ssp_env.corpus.jsonl import JsonlCorpus, open_corpus
from ssp_env.corpus.memory import MemoryCorpus
from ssp_env.corpus.pages import PageStore, only_section, open_pages
from ssp_env.types import Page, Section

__all__ = ["JsonlCorpus", "MemoryCorpus", "Page", "PageStore", "Section", "only_section", "open_corpus", "open_pages"]
