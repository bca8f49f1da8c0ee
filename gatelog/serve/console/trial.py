"""The page of trials: a form for a manifest, and whether its pods would start.

Invariant: GET answers with the form; POST brings a manifest, which is kept nowhere.
"""

from gatelog.readmodel.asked import Asked
from gatelog.serve.console.rendering import Page, page
from gatelog.serve.console.view import PageView
from gatelog.trial.answers import Answer
from gatelog.trial.telling import parts_of


def form(_: Asked, seen: PageView) -> Page:
    """Return the form alone."""
    return answered(seen, seen.query.get("namespace", "").strip(), "", None)


def answered(seen: PageView, namespace: str, manifest: str, answer: Answer | None) -> Page:
    """Return the answer to a manifest, and the form with it; without one the form."""
    return page(
        "Would it start?",
        {"answer": answer},
        seen,
        "try",
        namespace=namespace,
        manifest=manifest,
        parts=parts_of(answer) if answer is not None else [],
    )
