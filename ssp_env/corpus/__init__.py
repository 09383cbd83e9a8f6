"""Passages and pages with random access: files on disk, or records in memory."""

from ssp_env.corpus.jsonl import JsonlCorpus, open_corpus
from ssp_env.corpus.memory import MemoryCorpus
from ssp_env.corpus.pages import Page, PageStore, open_pages
from ssp_env.types import Section

__all__ = ["JsonlCorpus", "MemoryCorpus", "Page", "PageStore", "Section", "open_corpus", "open_pages"]
