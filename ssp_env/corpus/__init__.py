"""Passages with random access: files on disk (``open_corpus``) or records in memory (``MemoryCorpus``)."""

from ssp_env.corpus.jsonl import JsonlCorpus, open_corpus
from ssp_env.corpus.memory import MemoryCorpus

__all__ = ["JsonlCorpus", "MemoryCorpus", "open_corpus"]
