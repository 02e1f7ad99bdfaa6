"""One module per control tag, and the registry that lists them.

To support another control tag:

1. Write a module here with the two functions of :class:`~backend.questions.tags.registry.ControlTag`:
   ``obstacle(element, tree)`` says why an element cannot be voted on, ``read_control(element, tree)`` returns
   the :class:`~backend.questions.controls.Control`. The module's docstring says what Label Studio
   stores for the tag. Reuse ``OneOf``, ``AnyOf``, ``NumberControl`` or ``Spans`` if one of them fits.
2. Enter the module in :data:`~backend.questions.tags.registry.CONTROL_TAGS`.
3. Add the tag to the table in ``docs/tags.md`` (a test compares the two).
"""
