"""A retrieval server: one index, read by any number of environments over HTTP.

``wire`` is the format, ``batcher`` and ``handler`` the work without a web framework, ``app`` the FastAPI routes and
``command`` the entry ``ssp serve``. Left out: authentication and encryption. The server listens on loopback unless
told otherwise; beyond that it belongs behind a proxy.
"""
