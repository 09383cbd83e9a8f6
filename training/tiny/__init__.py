"""The tiny policy: tokenizer, warm start and shipped weights for the generated world."""
