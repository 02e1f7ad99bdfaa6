"""Reading models' answers: votes in the words that models wrap around them.

An answer is read as a person would read it, but never guessed at: where it can be read in two ways that give
different votes, there is none. What is read ever more loosely: the whole answer as JSON, then blocks of code,
then JSON among other words, then the words themselves.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final

import yaml

from backend.errors import BadAnswerError
from backend.questions.naming import GENERIC, answer_key, is_placeholder, unwrapped, usual_entries
from backend.questions.question import TaskQuestion

_THOUGHT: Final = re.compile(r"<(/?)(?:think|thinking|thought|reasoning)>", re.IGNORECASE)
_MESSAGE: Final = "<|message|>"
_TURN: Final = re.compile(r"(?:<\|[\w -]{1,30}\|>|</?s>|<(?:end_of_turn|eos|eot)>|\[/INST\])\Z")
"""A mark that ends a turn; some servers leave it in the answer."""

_END: Final = re.compile(r"<\|(?:im_end|eot_id|eom_id|end|return|endoftext|end_of_text)\|>|<end_of_turn>")
"""A mark after which a model talks to itself in other parts; ``</s>`` is also a tag of HTML."""

_TURNS: Final = 8
"""The most such marks that are removed."""

_CODE: Final = re.compile(r"```[\w+-]*[ \t]*\r?\n?(.*?)(?:```|\Z)", re.DOTALL)
_OPENING: Final = re.compile(r"[{\[]")
_OPEN: Final = re.compile(r"\{\s*")
_COLON: Final = re.compile(r"\s*:\s*")
_COMMA: Final = re.compile(r"\s*,\s*")
_EMPHASIS: Final = re.compile(r"[*`#]+|(?<!\w)_+|_+(?!\w)")
_CLAUSE: Final = re.compile(
    r"(?:\d{1,2}[.)])?\W*"
    r"(?:(?:sure|certainly|ok|okay|so|therefore|thus|hence|here[^\w\n]+is|i (?:think|believe)(?: that)?|"
    r"the|my|final|correct|best|most|appropriate)\W+)*"
    r"(?P<subject>[^:：=→\n]{1,64}?)(?:\s+(?:of|for)\s+(?:the|this)\s+(?:given\s+)?\w+)?"
    r"\s*(?:\b(?:is|are)\b\s*[:：]?|[:：=→]|[-=]>|\s[-–—]\s)\s*(?P<words>\S.*)",
    re.IGNORECASE,
)
_TAGGED: Final = re.compile(r"<([A-Za-z_][\w -]{0,63})>([^<>]{1,600})</\1>")
_REASON: Final = re.compile(r"\W*(?:explanation|reason(?:ing)?|rationale|because|note)\b", re.IGNORECASE)
_DENIAL: Final = re.compile(r"\b(?:not|no|neither|nor|cannot|wrong)\b|n['’]t\b")
_OPEN_WORDS: Final = re.compile(
    r"\b(?:if|unless|although|would|could|might|perhaps|maybe|possibly|either|unsure|uncertain|suppose|assum\w+|"
    r"had|wait|actually|rather|retract|reconsider|opposite|instead|otherwise|kidding|sa(?:y|ys|id)|claim\w*|"
    r"reads|example\w*|previous\w*|earlier|typically|usually|normally)\b",
    re.IGNORECASE,
)
"""Words beside which a sentence that names a label may leave it open, take it back, or repeat another's."""

_PROSE: Final = 1000
"""The most characters of prose in which a label is looked for."""

_SENTENCE: Final = re.compile(r"(?<=[.!])\s+")
_AFTER_COMMA: Final = re.compile(r"[,;:]\s+(?:and\s+|so\s+)*")
_DIGITS: Final = re.compile(r"\d+(?:\.\d+)?")
_COMMENT: Final = re.compile(r'("(?:[^"\\\n]|\\.)*(?:"|\Z|(?=\n)))|/\*[^*]*\*/|(?<![:/\w])//[^\n]*')
_BRACKETED: Final = re.compile(r"\s*[(\[<]([^()\[\]<>]{1,600})[)\]>]\s*")
_SMART: Final = str.maketrans("“”„‘’：，", '"""\'\':,')

_PYTHONS: Final = {"True": "true", "False": "false"}
"""Python's words for what JSON spells in another way."""

_PLACES: Final = 16
"""The most brackets in an answer at which JSON is looked for."""

_LOOSE_JSON: Final = 20_000
"""The most characters that are read as something like JSON; YAML's reader is slow."""

_DEPTH: Final = 6
"""The most wrappings around an answer's object: the call of a tool, written out, has so many."""


def _without_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    counts = Counter(key for key, _ in pairs)
    return {key: content for key, content in pairs if counts[key] == 1}


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_without_repeated_keys)


def parse_answer(content: str, questions: Sequence[TaskQuestion]) -> dict[str, str]:
    """Return the votes in a model's answer: question name → vote.

    An answer is a JSON object, or for a single question its bare value, in whatever wrapping. A question is
    left out if its key is missing or occurs twice, if it holds no valid answer, or several that differ.

    Raises:
        BadAnswerError: no question has a valid answer.
    """
    try:
        return _votes(content, questions)
    except RecursionError:  # nested too deeply for any question
        return _no_votes(content)


def _votes(content: str, questions: Sequence[TaskQuestion]) -> dict[str, str]:
    words = _final_words(content)
    for read in (_whole, _fenced, partial(_embedded_answers, questions), _cut_off):
        votes = _agreed(_votes_in(value, questions, _DEPTH) for value in read(words))
        if votes:
            return {name: vote for name, vote in votes.items() if vote is not None} or _no_votes(content)
    bare = _bare_vote(words, questions[0]) if len(questions) == 1 else None
    if bare is not None and _may_go_on(words, bare, questions[0]):
        bare = None
    found = {questions[0].name: bare} if bare is not None else _in_clauses(words, questions)
    return found or _no_votes(content)


def _no_votes(content: str) -> dict[str, str]:
    raise BadAnswerError(
        "the answer answers none of the questions" if content.strip() else "the answer is empty"
    )


def _final_words(content: str) -> str:
    """Return an answer without the reasoning before it, and without marks of turns around it."""
    if "<" in content and isinstance(_strict(content), dict | list):
        return content.strip()  # what looks like a mark is a part of a text
    words = content.rpartition(_MESSAGE)[2]
    if marks := [*_THOUGHT.finditer(words)]:
        # Thinking that was never closed is no answer.
        words = words[marks[-1].end() :] if marks[-1][1] else ""
    words = words.strip("\ufeff\u200b \t\r\n").removeprefix("<s>").lstrip()
    words = next(filter(str.strip, _END.split(words)), "").strip()
    for _ in range(_TURNS):
        if (mark := _TURN.search(words, max(0, len(words) - 40))) is None:
            break
        words = words[: mark.start()].rstrip()
    return words


def json_values(content: str) -> Iterator[Any]:
    """Yield the objects and arrays of an answer, read as loosely as is needed to find any."""
    words = _final_words(content)
    for read in (_whole, _fenced, _embedded):
        found = False
        for value in read(words):
            found = True
            yield value
        if found:
            return


def _whole(words: str) -> Iterator[Any]:
    """The answer as a whole, as an object or array."""
    for form in unwrapped(words):
        if isinstance(value := _strict(form), dict | list):
            yield value
            return


def _fenced(words: str) -> Iterator[Any]:
    """The blocks of code; the last may be unclosed."""
    for block in _CODE.finditer(words):
        if isinstance(value := _read(block[1].strip()), dict | list):
            yield value


def _embedded(words: str) -> Iterator[Any]:
    """JSON among other words, from the outermost brackets."""
    place = 0
    for _ in range(_PLACES):
        opening = _OPENING.search(words, place)
        if opening is None:
            return
        try:
            value, place = _DECODER.raw_decode(words, opening.start())
        except (ValueError, RecursionError):
            end = _closing(words, opening.start())
            value = _read(words[opening.start() : end])
            place = opening.end() if value is None else end
        if value:
            yield value


def _embedded_answers(questions: Sequence[TaskQuestion], words: str) -> Iterator[Any]:
    """The JSON among other words that can be an answer: ``[1]`` in prose is rather a reference."""
    listed = len(questions) == 1 and isinstance(questions[0].config.control.answer_format.form, list)
    for value in _embedded(words):
        if isinstance(value, dict) or listed or any(isinstance(each, dict) for each in value):
            yield value


def _closing(words: str, start: int) -> int:
    """The end of the bracket that opens at a position; 0 if it is not closed within what is read loosely."""
    depth, quoted, escaped = 0, False, False
    for place in range(start, min(len(words), start + _LOOSE_JSON)):
        character = words[place]
        if escaped or character == "\\":
            escaped = not escaped
        elif character == '"':
            quoted = not quoted
        elif not quoted:
            depth += (character in "{[") - (character in "}]")
            if depth == 0:
                return place + 1
    return 0


def _cut_off(words: str) -> Iterator[Any]:
    """The complete properties of an object that has no end, as after too many tokens.

    A number at the very end may lack digits, so it is not complete.
    """
    pairs: list[tuple[str, Any]] = []
    opened = _OPEN.search(words)
    try:
        place = 0 if opened is None else opened.end()
        while place:
            key, place = _DECODER.raw_decode(words, place)
            colon = _COLON.match(words, place)
            if not isinstance(key, str) or colon is None:
                break
            pairs.append((key, None))  # a value that follows replaces it
            value, place = _DECODER.raw_decode(words, colon.end())
            after = _COMMA.match(words, place)
            if after is not None or (not words[place:].strip() and isinstance(value, str | list | dict)):
                pairs[-1] = (key, value)
            if after is None:
                break
            place = after.end()
    except (ValueError, RecursionError):
        pass
    answers = {key: value for key, value in _without_repeated_keys(pairs).items() if value is not None}
    if answers:
        yield answers


def _read(text: str) -> Any:
    """A text as JSON, or as what is nearly JSON: other quotes, trailing commas, keys without quotes."""
    value = _strict(text)
    if value is not None or not text or text[0] not in "{[" or len(text) > _LOOSE_JSON:
        return value
    text = _COMMENT.sub(r"\1", text)
    for form in dict.fromkeys((text.translate(_SMART), text)):
        try:
            return _flow(form)
        except (ValueError, yaml.YAMLError, RecursionError):
            continue
    return None


def _strict(text: str) -> Any:
    """The text's JSON value, objects without the keys that occur twice; ``None`` if the text is not JSON."""
    try:
        return json.loads(text, object_pairs_hook=_without_repeated_keys)
    except (ValueError, RecursionError):
        return None


def _flow(text: str) -> Any:
    """An object or array in YAML's flow style, which JSON with small mistakes is, too."""
    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    node = yaml.compose(text, loader)
    return _value_of(node, set())


def _value_of(node: Any, seen: set[int]) -> Any:
    if id(node) in seen:
        raise ValueError("an answer repeats no part of itself by reference")
    seen.add(id(node))
    match node:
        case yaml.MappingNode():
            return _without_repeated_keys(
                [(_text_of(key), _value_of(value, seen)) for key, value in node.value]
            )
        case yaml.SequenceNode():
            return [_value_of(item, seen) for item in node.value]
        case _:
            return _scalar(node)


def _text_of(node: Any) -> str:
    if not isinstance(node, yaml.ScalarNode):
        raise ValueError("a key is a text")
    return str(node.value)


def _scalar(node: Any) -> Any:
    """A number, boolean or null, or the text as it is written."""
    text = str(node.value)
    value = _strict(_PYTHONS.get(text, text)) if node.style is None else None
    return text if value is None else value


def _agreed(readings: Iterable[Mapping[str, str | None]]) -> dict[str, str | None]:
    """The votes of several objects; ``None`` for a question on which they differ."""
    votes: dict[str, str | None] = {}
    for reading in readings:
        for name, vote in reading.items():
            votes[name] = vote if votes.get(name, vote) == vote else None
    return votes


def _votes_in(value: Any, questions: Sequence[TaskQuestion], depth: int) -> Mapping[str, str | None]:
    """The votes in an object, or in the objects within a wrapping; ``None`` where these differ."""
    if isinstance(value, list):
        single = len(questions) == 1 and (vote := questions[0].vote_from_answer(value)) is not None
        wrapping = len(value) == 1 and isinstance(value[0], dict) and not _takes_objects(questions)
        if single and not wrapping:
            return {questions[0].name: str(vote)}
        within = _votes_in(value[0], questions, depth - 1) if len(value) == 1 and depth else {}
        within = within or _nested_votes(value, questions, depth)
        return within or ({questions[0].name: str(vote)} if single else {})
    return _votes_in_object(value, questions, depth) if isinstance(value, dict) else {}


def _votes_in_object(
    value: Mapping[str, Any], questions: Sequence[TaskQuestion], depth: int
) -> Mapping[str, str | None]:
    votes = _named_votes(value, questions, alone=len(questions) == 1)
    if votes:  # also those that are none: what lies below a refusal is no answer
        return (_bare_object(value, questions) if _takes_objects(questions) else {}) or votes
    if not depth or len(value) != 1:
        return _bare_object(value, questions) or _nested_votes(value, questions, depth)
    [(key, inner)] = value.items()
    if not _wraps(key, questions):
        return _bare_object(value, questions)
    inner = _strict(inner) if isinstance(inner, str) else inner
    return _votes_in(inner, questions, depth - 1) or _bare_object(value, questions)


def _named_votes(
    value: Mapping[str, Any], questions: Sequence[TaskQuestion], *, alone: bool = False
) -> dict[str, str | None]:
    """The votes in an object under the questions' names; ``None`` where it says nothing valid there."""
    votes: dict[str, str | None] = {}
    for question in questions:
        said = {_entry_vote(entry, question) for entry in _entries(value, question, alone=alone)}
        if said:
            votes[question.name] = said.pop() if len(said) == 1 else None
    return votes


def _entry_vote(entry: Any, question: TaskQuestion) -> str | None:
    """The vote in a question's entry, which may repeat the question's name."""
    vote = question.vote_from_answer(entry)
    inner = _strict(entry) if isinstance(entry, str) else entry
    if vote is None and isinstance(inner, dict):
        return _named_votes(inner, [question]).get(question.name)
    return vote


def _nested_votes(value: Any, questions: Sequence[TaskQuestion], depth: int) -> Mapping[str, str | None]:
    """The votes in objects beside other things, as in the call of a tool; only those under their names."""
    value = _strict(value) if isinstance(value, str) else value
    inner = value if isinstance(value, list) else ()
    if isinstance(value, dict):
        if votes := _named_votes(value, questions):
            return votes
        inner = [each for key, each in value.items() if _wraps(key, questions)]
    return _agreed(_nested_votes(each, questions, depth - 1) for each in inner) if depth else {}


def _wraps(key: str, questions: Sequence[TaskQuestion]) -> bool:
    """Whether a key announces an answer, rather than, say, one that was rejected."""
    names = {word for each in questions for name in (each.name, each.config.tag) for word in _words_of(name)}
    return _words_of(key) <= _WRAPPERS | names


def _words_of(key: str) -> set[str]:
    return {word.removesuffix("s") for word in re.findall(r"[^\W\d_]+", key.casefold())}


def _takes_objects(questions: Sequence[TaskQuestion]) -> bool:
    """Whether the only question's answer has keys of its own, which may be those of an answer."""
    form = questions[0].config.control.answer_format.form
    form = form[0] if isinstance(form, list) and form else form
    return len(questions) == 1 and isinstance(form, Mapping)


def _bare_object(value: Mapping[str, Any], questions: Sequence[TaskQuestion]) -> dict[str, str]:
    """The vote on a single question that an object without its name is."""
    if len(questions) != 1:
        return {}
    vote = questions[0].vote_from_answer(value)
    return {} if vote is None else {questions[0].name: vote}


def _entries(answers: Mapping[str, Any], question: TaskQuestion, *, alone: bool) -> list[Any]:
    """What is said about a question: under its name, in other letters, too, or a usual key if it is alone.

    The form that was asked for, if repeated, says nothing.
    """
    own = _own_keys(question)
    for name in (question.name, answer_key(question.name)):
        if name in answers:
            return [answers[name]] if not _is_form(answers[name]) else []
    found = [entry for key, entry in answers.items() if _key(key) in own]
    named = any(isinstance(said := answers.get(key), str) and _key(said) in own for key in _NAMES)
    if not found and (alone or named):
        tag = _key(question.config.tag)
        usual = usual_entries(answers) or [entry for key, entry in answers.items() if _key(key) == tag]
        found = [entry for entry in usual if _speaks(entry, question)]
    return [entry for entry in found if not _is_form(entry)]


def _is_form(entry: Any) -> bool:
    """Whether an entry is the placeholder of a form."""
    inner = entry[0] if isinstance(entry, list) and len(entry) == 1 else entry
    return isinstance(inner, str) and is_placeholder(inner)


def _speaks(entry: Any, question: TaskQuestion) -> bool:
    """Whether a usual key's entry is an answer or a refusal, not a number beside it or a wrapping."""
    inner = _strict(entry) if isinstance(entry, str) else entry
    words = entry is None or (isinstance(entry, str) and not isinstance(inner, dict | list))
    return words or question.vote_from_answer(entry) is not None


def _key(name: str) -> str:
    return re.sub(r"[\W_]+", "", name).casefold()


def _own_keys(question: TaskQuestion) -> set[str]:
    return {_key(question.name), _key(answer_key(question.name))}


_NAMES: Final = ("question", "name", "key", "id")
"""Keys of an object that hold the name of the question that it answers."""

_WRAPPERS: Final = frozenset(
    {"answer", "label", "labeling", "labelling", "result", "output", "response", "value", "choice", "final"}
    | {"category", "categorie", "class", "classe", "clas", "classification", "prediction", "annotation"}
    | {"argument", "arg", "input", "parameter", "param", "function", "call", "tool", "use", "data", "json"}
    | {"object", "content", "message", "task", "item", "question", "text", "document", "analysi", "model"}
    | {"propertie", "entity", "entitie", "span"}
)
"""The words, without a final s, in keys of objects that wrap an answer, as in the call of a tool."""

_ANSWERS: Final = frozenset(
    {"答案", "回答", "标签", "標籤", "类别", "分类", "分類", "ラベル", "답", "답변", "라벨", "ответ", "метка"}
    | {"antwort", "etikett", "kategorie", "réponse", "étiquette", "catégorie", "respuesta", "etiqueta"}
    | {"categoría", "categoria", "risposta", "etichetta", "resposta", "الإجابة", "التصنيف"}
)
"""The words for an answer or a label, as a model writes them that answers in the language of the text."""

_USUAL: Final = frozenset(map(_key, GENERIC | _ANSWERS))
"""The subjects of clauses that answer the only question, beside its tag."""


def _bare_vote(words: str, question: TaskQuestion) -> str | None:
    """The vote on a single question that is answered without its name."""
    if not words.strip():
        return None
    clause = _in_clauses(words, [question]) if "\n" not in words.strip() else {}
    if clause:
        return clause[question.name]
    forms = unwrapped(words)
    values = [value for form in forms if (value := _strict(form)) is not None or form.strip() == "null"]
    blocks = [block[1].strip() for block in _CODE.finditer(words)][:1]
    brackets = _BRACKETED.fullmatch(words)
    within = [brackets[1]] if brackets is not None and not is_placeholder(words.strip()) else []
    for candidate in (words, *values, *blocks, *within):
        if (vote := question.vote_from_answer(candidate)) is not None:
            return vote
    return _lone_line(words, question) or _in_prose(words, question)


def _may_go_on(words: str, vote: str, question: TaskQuestion) -> bool:
    """Whether an answer ends within its JSON, where the vote may be the beginning of another label."""
    if words.count('"') % 2 == 0 and (words[:1] not in {"{", "["} or _closing(words, 0)):
        return False
    texts = [text for text, _ in question.config.control.answer_format.labels] or list(question.options)
    own = tuple(text.casefold() for text in texts if question.vote_from_answer(text) == vote)
    return any(text.casefold().startswith(own) and text.casefold() not in own for text in texts)


def _in_prose(words: str, question: TaskQuestion) -> str | None:
    """The label in one clause of prose, as in ``I have read it, and the best label is X. Bye!``.

    No other words may name another label, deny something, ask, or leave it open.
    """
    if not question.options or len(words) > _PROSE or "?" in words:
        return None
    subjects = _own_keys(question) | {_key(question.config.tag), *_USUAL}
    sentences = _SENTENCE.split(" ".join(_EMPHASIS.sub("", words).split()))
    votes: dict[str, str] = {}
    for place, sentence in enumerate(sentences):
        for start in [0, *(comma.end() for comma in islice(_AFTER_COMMA.finditer(sentence), _PLACES))]:
            clause = _CLAUSE.fullmatch(sentence, start)
            if clause is None or _key(clause["subject"]) not in subjects:
                continue
            before = sentence[: clause.start("words")]
            if before.count('"') % 2 or before.count("“") > before.count("”"):  # somebody else's words
                continue
            if (vote := question.vote_from_answer(clause["words"].strip())) is not None:
                votes[vote] = " ".join([*sentences[:place], sentence[:start], *sentences[place + 1 :]])
                break
    if len(votes) != 1:
        return None
    [(vote, around)] = votes.items()
    return None if _OPEN_WORDS.search(around) or _is_disputed(around, vote, question) else vote


def _lone_line(words: str, question: TaskQuestion) -> str | None:
    """The label alone on the first or last line, if nothing around it denies it or names another.

    Thoughts before the last line may name others, but a number among others is no vote.
    """
    if not question.options:
        return None
    lines = [line.strip() for line in words.strip().split("\n")[:200]]
    votes = _votes_apart(lines, question)
    if len(votes) != 1:
        return None
    [(place, vote)] = votes.items()
    others = lines[:place] + lines[place + 1 :]
    if place and question.config.control.answer_format.labels:
        alone = {question.vote_from_answer(line) for line in others if line}
        return None if alone - {vote, None} or _is_denied(" ".join(others)) else vote
    return None if _is_disputed("\n".join(others), vote, question) else vote


def _votes_apart(lines: Sequence[str], question: TaskQuestion) -> dict[int, str]:
    """The votes that are alone on the first or last line: line → vote."""
    if len(lines) < 2:
        return {}
    apart = {0} if not lines[1] or _REASON.match(lines[1]) else set()
    apart |= set() if lines[-2] else {len(lines) - 1}
    return {place: vote for place in apart if (vote := question.vote_from_answer(lines[place])) is not None}


def _is_denied(around: str) -> bool:
    """Whether the words around a vote deny something."""
    return _DENIAL.search(around.casefold()) is not None


def _is_disputed(around: str, vote: str, question: TaskQuestion) -> bool:
    """Whether the words around a vote deny something, or name another label or number."""
    if _is_denied(around):
        return True
    around = " ".join(around.casefold().split())
    if question.options and not question.config.control.answer_format.labels:
        return any(question.vote_from_answer(number) != vote for number in _DIGITS.findall(around))
    others = (text for text, _ in question.config.control.answer_format.labels)
    named = (re.escape(text.casefold()) for text in others if question.vote_from_answer(text) != vote)
    return any(re.search(rf"(?<!\w){text}(?!\w)", around) for text in named)


def _in_clauses(words: str, questions: Sequence[TaskQuestion]) -> dict[str, str]:
    """The votes in lines such as ``The answer is X.`` or ``topic: X``, and in ``<topic>X</topic>``."""
    lines = [_EMPHASIS.sub("", line) for line in words.splitlines()[:200] if len(line) <= 500]
    lines = [" ".join(line.split()) for line in lines]
    if len(questions) > 1:
        names = "|".join(re.escape(question.name) for question in questions)
        lines = [part for line in lines for part in re.split(rf"[,;]\s*(?=(?:{names})\s*[:=])", line)]
    found_clauses = [_CLAUSE.fullmatch(line) for line in lines if line[:1] not in {"{", "["}]
    clauses = [(clause["subject"], clause["words"]) for clause in found_clauses if clause is not None]
    tagged = _TAGGED.findall(words)[:200]
    outside = _TAGGED.sub(" ", words) if tagged else ""
    found: list[dict[str, str]] = []
    for question in questions:
        subjects = _own_keys(question)
        if len(questions) == 1:
            subjects |= {_key(question.config.tag), *_USUAL}
        for place, (subject, said) in enumerate([*clauses, *tagged]):
            if _key(subject) in subjects and said.count('"') % 2 == 0:
                vote = question.vote_from_answer(said.strip().rstrip(",") if '"' in said else said.strip())
                if vote is not None and place >= len(clauses) and _is_disputed(outside, vote, question):
                    return {}
                found += [] if vote is None else [{question.name: vote}]
        if found and len(questions) == 1 and question.options:
            # A label alone on a line is an answer, too, which may differ.
            apart = _votes_apart([line.strip() for line in words.strip().split("\n")[:200]], question)
            found += [{question.name: vote} for vote in apart.values()]
    return {name: vote for name, vote in _agreed(found).items() if vote is not None}
