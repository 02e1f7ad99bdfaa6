"""How many labels people have to give so that blind labels certify, and where."""

from __future__ import annotations

from backend.ledger.projects import is_of_label_studio
from backend.server.status.formats import count, of, share_of_hundred
from backend.server.status.report import ProjectReport, QuestionReport


def what_to_label(project: ProjectReport, question: QuestionReport) -> str | None:
    """Say what to label so that the guarantee names a score; ``None`` if it does."""
    guarantee, certify = question.guarantee, question.certify
    if guarantee.threshold is not None:
        return None
    target = share_of_hundred(guarantee.target)
    if certify is None:
        needed = question.blind_needed
        if needed is None:
            return (
                f"by the scores, which nobody has checked yet, too many labels are wrong to certify {target};"
                f" blind labels correct the scores: {_how(project)}"
            )
        return f"about {count(needed)} blind labels are expected to certify {target}; {_how(project)}"
    if certify.needed is None:
        return f"by the scores, no number of blind labels certifies {target}: too many labels are wrong"
    wanted = share_of_hundred(certify.target)
    if certify.needed <= certify.waiting:
        return f"label {of(certify.needed, 'more blind task')} to certify {wanted}; {_where(project)}"
    waiting = f"{count(certify.waiting)} wait" if certify.waiting else "none waits"
    more = f"about {count(certify.needed)} more blind labels are expected to certify {wanted}"
    return f"{more}, and {waiting}; {_how(project)}"


def _where(project: ProjectReport) -> str:
    if is_of_label_studio(project.key):
        return f"camvo review --project {project.id} --tab shows them"
    return "fill in blind.csv from its top, then run camvo teach blind.csv"


def _how(project: ProjectReport) -> str:
    if is_of_label_studio(project.key):
        return "set audit in camvo.yaml before tasks are predicted"
    return "a file's first run says how many tasks are blind (camvo label --blind)"
