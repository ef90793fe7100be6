"""The benchmark of task-oriented dialogue."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gavel.settings.section import Section


class DialogueOptions(Section):
    """Where the dialogue benchmark is stricter than the reference evaluator of MultiWOZ.

    The default is the strict reading; the reference's own is the other value, and both figures are
    shown wherever they differ. `active_domains` and `responses` are choices, not strictness: `auto`
    is what the reference does.

    - `missing_dialogues`: a dialogue of the corpus that the file lacks failed, or is left out.
    - `missing_states`: a turn without a state has an empty one, or every state of the file is
      replaced by the gold one. (A file without any state is one of policy optimisation: gold.)
    - `turn_counts`: a dialogue longer or shorter than the corpus's is an error, or is cut.
    - `one_letter_values`: a value of one letter matches only itself, or whatever holds the letter.
    - `active_domains`: the domains of a turn are those `given`, those of the slots' prefixes, or
      guessed from the change of `state`; `auto` takes the given where every turn has them.
    - `responses`: delexicalised, with [slots], or lexicalised, with real names and numbers.
    """

    missing_dialogues: Literal["fail", "skip"] = "fail"
    missing_states: Literal["empty", "gold"] = "empty"
    turn_counts: Literal["error", "shortest"] = "error"
    one_letter_values: Literal["equal", "fuzzy"] = "equal"
    active_domains: Literal["auto", "given", "slots", "state"] = "auto"
    responses: Literal["auto", "delexicalised", "lexicalised"] = "auto"


class Dialogue(Section):
    """The task-oriented dialogue benchmark: its corpus, and the folder of prediction files.

    `predictions` holds one JSON file a system; its name is the system's. `systems` overrides
    options for one system. `acts_database` is where DSTC8's databases are, if not with the corpus;
    `ratings` a table of human ratings: system, item, rater, rating. `pages` is how many failed
    dialogues of a system get a page of their own.
    """

    corpus: str
    predictions: str
    options: DialogueOptions = DialogueOptions()
    systems: dict[str, DialogueOptions] = {}
    acts_database: str | None = None
    ratings: str | None = None
    resamples: int = Field(default=1000, ge=100, le=10_000)
    confidence: float = Field(default=0.95, gt=0.5, lt=1)
    seed: int = 7
    pages: int = Field(default=20, ge=0, le=10_000)

    def options_of(self, system: str) -> DialogueOptions:
        """The options of `system`: its own where it has any, otherwise the common ones."""
        own = self.systems.get(system, DialogueOptions())
        return self.options.model_copy(update=own.model_dump(exclude_unset=True))
