"""Passages and pages with random access: files on disk, or records in memory."""

from ssp_env.corpus.jsonl import JsonlCorpus, open_corpus
from ssp_env.corpus.memory import MemoryCorpus
from ssp_env.corpus.pages import Page, PageStore, Section, open_pages

__all__ = ["JsonlCorpus", "MemoryCorpus", "Page", "PageStore", "Section", "open_corpus", "open_pages"]
