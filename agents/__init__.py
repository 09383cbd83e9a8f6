"""Implementations of the ``Agent`` protocol: things that complete text.

``agents.scripted`` needs nothing, ``agents.openai_api`` needs an endpoint, ``agents.hf`` needs the extra ``train``.
Nothing is imported here. Beware: other distributions install a module called ``agents`` too;
``tests/test_packaging.py`` checks that this one is found.
"""
