"""The test suite; its folders mirror those of the sources."""
