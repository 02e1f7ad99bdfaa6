"""One module per control tag, and the registry that lists them.

To support another control tag:

1. Write a module here with a ``TAG``, a :class:`~backend.questions.controls.ControlTag` of two functions: one
   says why an element cannot be voted on, the other returns the
   :class:`~backend.questions.controls.Control`. The module's docstring says what Label Studio stores for
   the tag. Reuse ``OneOf``, ``AnyOf``, ``NumberControl`` or ``Spans`` if one of them fits.
2. Enter it in :data:`~backend.questions.tags.registry.CONTROL_TAGS`.
3. Add the tag to the table in ``docs/tags.md`` (a test compares the two).
"""
