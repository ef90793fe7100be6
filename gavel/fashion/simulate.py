"""Simulating conversations from goals, and the ground that all steps of the benchmark stand on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from gavel.fashion.catalogue import catalogue_of
from gavel.fashion.conversation import Assistant, Conversation, Customer, Shop, converse, shop
from gavel.fashion.dataset import tells_all
from gavel.fashion.goals import Goal
from gavel.fashion.parties import (
    SpeakingAssistant,
    SpeakingCustomer,
    Voice,
    voice_of,
)
from gavel.fashion.prompts import FashionPrompts
from gavel.fashion.scripted import Scripts
from gavel.fashion.vocabulary import Vocabulary
from gavel.inference.ledger import Ledger
from gavel.inference.request import Request
from gavel.settings.fashion import Fashion
from gavel.suite import Suite

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Ground:
    """The suite with what stands in prompts/fashion, read once. Raises FashionError."""

    suite: Suite
    settings: Fashion

    @property
    def folder(self) -> Path:
        """The folder of prompts, vocabulary and phrases."""
        return self.suite.path(self.suite.prompts) / "fashion"

    @cached_property
    def scripts(self) -> Scripts:
        """The rules in place of models."""
        return Scripts(self.folder)

    @cached_property
    def prompts(self) -> FashionPrompts:
        """The templates."""
        return FashionPrompts(self.folder)

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary of goals."""
        return self.scripts.vocabulary

    @property
    def shop(self) -> Shop:
        """What customers are shown of a search, as the settings say."""
        settings = self.settings
        items = settings.carousel == "items"
        catalogue = (
            catalogue_of(self.vocabulary, settings.catalogue, settings.seed) if items else None
        )
        return shop(catalogue, settings.shown)

    def voice(
        self,
        evaluator: str,
        ledger: Ledger,
        rule: Callable[[Request], str],
        revision: str,
    ) -> Voice:
        """The voice of `evaluator`, or of `rule` where it is scripted."""
        return voice_of(self.suite, evaluator, ledger, rule, revision, self.settings.attempts)

    def customers(self, language: str, ledger: Ledger) -> Mapping[str, Customer]:
        """The simulated customers of the settings, by name, who write in `language`."""
        revision = f"{self.scripts.revision}|{language}"
        return {
            name: SpeakingCustomer(
                self.voice(customer.evaluator, ledger, self.scripts.customer, revision),
                self.prompts,
                language,
            )
            for name, customer in self.settings.customers.items()
        }

    def assistant(self, evaluator: str, variant: str, language: str, ledger: Ledger) -> Assistant:
        """An assistant that is a model or the scripted one."""
        voice = self.voice(
            evaluator, ledger, self.scripts.assistant, f"{self.scripts.revision}|{language}"
        )
        return SpeakingAssistant(voice, self.prompts, variant, language)


def simulate(
    ground: Ground, goals: Sequence[Goal], ledger: Ledger, progress: Progress = lambda _: None
) -> list[Conversation]:
    """One conversation for each goal, in English, between its customer and the assistant of the settings.

    Raises:
        EvaluatorOutage, EvaluatorRefused, BudgetSpent: every finished turn is in the ledger, and simulating
            again goes on after it.
    """
    settings = ground.settings
    conversations = [Conversation(goal) for goal in goals]
    converse(
        conversations,
        ground.customers("en", ledger),
        ground.assistant(settings.assistant, settings.assistant_prompt, "en", ledger),
        ground.shop,
        settings.turn_limit,
        progress,
    )
    for conversation in conversations:
        conversation.all_info = tells_all(conversation)
    return conversations
