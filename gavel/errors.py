"""Errors meant for people: one sentence with what was wrong, the value, and what is accepted."""


class GavelError(Exception):
    """The base of every error whose text is the whole message a user needs."""


class SuiteError(GavelError):
    """`suite.yaml` cannot be read, or a key of it holds something that is not accepted."""


class SourceError(GavelError):
    """A log source cannot be read: a missing file, an unknown column, a wrong format."""


class RubricError(GavelError):
    """A rubric, label list or prompt template under `prompts/` is wrong."""


class CorpusError(GavelError):
    """The benchmark's corpus (goals, references, states, databases) is missing or malformed."""


class PredictionError(GavelError):
    """A prediction file is malformed, or does not fit the corpus: file, dialogue and turn are named."""


class LabelError(GavelError):
    """A file of people's labels, or what is asked of a sample for them, cannot be used at all."""


class PairError(GavelError):
    """A file of pairs of answers is missing or malformed: file and line are named."""


class FashionError(GavelError):
    """The fashion benchmark's vocabulary, phrases, prompts, decisions or models are missing or malformed."""


class StoreError(GavelError):
    """A table cannot be read or written: it is missing, the disk is full, a column changed its type."""


class EvaluatorRefused(GavelError):
    """The endpoint refuses every request (authentication, unknown model): asking again cannot help."""


class EvaluatorOutage(GavelError):
    """The endpoint is down: the run stops, keeps its ledger, and can be run again later."""


class MissingExtra(GavelError):
    """A setting needs packages that the base install leaves out."""


def missing_extra(what: str, extra: str, options: str = "-c constraints.txt ") -> MissingExtra:
    """The error that says what to install for `what`."""
    return MissingExtra(
        f"{what} need the extra {extra}, which is not installed: "
        f".venv/bin/pip install {options}-e '.[{extra}]'"
    )
