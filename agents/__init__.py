"""Implementations of the ``Agent`` protocol: things that complete text.

Their name is ``ssp_agents``, in the wheel and, by a link to this folder, in a checkout; ``agents`` belongs to another
distribution. ``scripted`` needs nothing, ``openai_api`` an endpoint, ``hf`` the extra ``train``.
"""
