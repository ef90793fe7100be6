"""One spelling for slot names, slot values and responses, as the standard MultiWOZ evaluation has it.

The rules are facts of that evaluation (Nekvinda and Dušek 2021, "Shades of BLEU, Flavours of
Success", arXiv 2106.05555, and the code published with it): which slot names stand for which token,
which misspelt values of the corpus stand for which entry of the database. Figures are comparable
only where every one of them is the same, the odd ones included.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from gavel.dialogue.moses import round_trip

DOMAINS = ("restaurant", "hotel", "attraction", "train", "taxi", "police", "hospital")

DONTCARE = frozenset(
    ("dontcare", "not mentioned", "don't care", "dont care", "do n't care", "do not care")
)
"""Values that constrain nothing."""

# Token of the references: slot names that stand for it. `value_` and the domains are prefixes.
_TOKENS = {
    "ADDRESS": "address value_address attraction_ hospital_ hotel_ police_ restaurant_",
    "AREA": "area value_area attraction_ restaurant_ hotel_",
    "TIME": "time value_time booktime duration value_duration train_duration value_arrive value_leave "
    "arriveby taxi_arriveby train_arriveby train_arrive leaveat taxi_leaveat train_leaveat train_leave",
    "DAY": "day value_day train_ bookday",
    "PLACE": "value_place destination value_destination train_destination taxi_destination "
    "departure value_departure train_departure taxi_departure",
    "FOOD": "food value_food restaurant_",
    "NAME": "name value_name attraction_ hospital_ hotel_ police_ restaurant_",
    "PHONE": "phone value_phone attraction_ hospital_ hotel_ police_ restaurant_ taxi_",
    "POST": "postcode value_postcode attraction_ hospital_ hotel_ police_ restaurant_",
    "PRICE": "price value_price train_ attraction_ entrancefee attraction_entrancefee pricerange "
    "value_pricerange attraction_pricerange hotel_pricerange restaurant_pricerange",
    "REFERENCE": "reference value_reference attraction_ hotel_ restaurant_ train_ ref",
    "COUNT": "stars value_stars hotel_stars stay value_stay bookstay people value_people bookpeople "
    "value_count choice value_choice attraction_choice hotel_choice restaurant_choice train_choice",
    "TYPE": "type value_type attraction_ hotel_ restaurant_ taxi_ car value_car taxi_car",
    "TRAINID": "trainid train_trainid id value_id train_id train",
    "INTERNET": "internet hotel_",
    "PARKING": "parking hotel_",
    "ID": "attraction_id hospital_id restaurant_id",
    "DEPARTMENT": "department value_department hospital_",
    "OPEN": "openhours",
}
# A prefix alone stands for itself before the token's first name: `hotel_` of AREA is hotel_area.
SLOT_TOKENS: Mapping[str, str] = {
    name + names.split()[0] if name.endswith("_") else name: token
    for token, names in _TOKENS.items()
    for name in names.split()
} | {"arrive by": "TIME", "leave at": "TIME", "entrance fee": "PRICE", "price range": "PRICE"}
"""Every slot name that a response may hold in brackets, and the token it stands for."""

SLOT = re.compile(r"\[([\w\s\d]+)\](?:es|s|-s|-es|)")
"""A delexicalised slot in a response, with the plural ending that goes with it."""


@lru_cache(maxsize=100_000)
def response(text: str) -> str:
    """A response as BLEU and Success read it: lower-case, slots as tokens, detokenised.

    A slot name that stands for nothing leaves nothing.
    """
    tokens = SLOT.sub(lambda slot: SLOT_TOKENS.get(slot[1], ""), text.lower())
    return round_trip(tokens.replace("-s", "").replace("-ly", ""))


@lru_cache(maxsize=100_000)
def unknown_slots(text: str) -> tuple[str, ...]:
    """The slot names of a response that stand for no token."""
    return tuple(name for name in SLOT.findall(text.lower()) if name not in SLOT_TOKENS)


@lru_cache(maxsize=10_000)
def slot_name(name: str) -> str:
    """The name of a slot of a state, or of a column of a database."""
    plain = name.lower().replace(" ", "")
    return {"arriveby": "arrive", "leaveat": "leave"}.get(plain, plain)


def state(slots: Mapping[str, str | None]) -> Mapping[str, str | None]:
    """The state of one domain with its slot names and values in one spelling.

    Equal states, such as those of the turns of a dialogue in which nothing changes, are one object.
    """
    return _state(tuple(slots.items()))


@lru_cache(maxsize=100_000)
def _state(slots: tuple[tuple[str, str | None], ...]) -> Mapping[str, str | None]:
    return {(name := slot_name(slot)): value(name, given) for slot, given in slots}


@lru_cache(maxsize=100_000)
def value(slot: str, given: str | None) -> str | None:
    """A slot's value, spelt the way the database spells it."""
    if given is None:
        return None
    if slot in ("name", "destination", "departure"):
        return _name(given)
    if slot in ("arrive", "leave", "time"):
        return _time(given)
    if slot == "food":
        return _FOODS.get(food := given.strip().lower(), food)
    if slot == "type":
        return _TYPES.get(given, given)
    if slot in ("parking", "internet") and given == "free":
        return "yes"
    return given


@lru_cache(maxsize=10_000)
def minutes(time: str) -> int:
    """Minutes since midnight of a time that begins HH:MM; 0 of anything else."""
    found = re.match(r"(\d\d):(\d\d)", time)
    return int(found[1]) * 60 + int(found[2]) if found else 0


def _name(given: str) -> str:
    name = given.strip().lower().replace(" & ", " and ").replace("&", " and ").replace(" '", "'")
    return _NAMES.get(name, name)


def _time(given: str) -> str:
    time = given.strip().lower()
    if time in _TIMES:
        return _TIMES[time]
    for start, at in (("one o'clock p.m", "13:00"), ("ten o'clock a.m", "10:00")):
        if time.startswith(start):
            return at
    if time.startswith("by"):
        time = time[3:]
    for word in ("after", "afer"):
        if time.startswith(word):
            time = time[len(word) :].strip()
    for ending in ("am", "a.m."):
        if time.endswith(ending):
            time = time[: -len(ending)].strip()
    for ending in ("pm", "p.m."):
        if time.endswith(ending):
            time = time[: -len(ending)].strip()
            if afternoon := re.fullmatch(r"\s*(\d+)(?:\s*:([^:]*))?", time):
                after = "00" if afternoon[2] is None else afternoon[2]
                return f"{int(afternoon[1]) + 12}:{after}"
    if not time:
        return "00:00"
    if time[-1] in ".,?":
        time = time[:-1]
    if time.isdigit():
        return f"{time[:2]}:{time[2:]}" if len(time) == 4 else f"{time.zfill(2)}:00"
    if ":" in time:
        time = time.replace(" ", "")
    return time.zfill(5) if len(time) == 4 and time[1] == ":" else time


_TIMES = {
    "afternoon": "13:00",
    "lunch": "12:00",
    "noon": "12:00",
    "mid-day": "12:00",
    "around lunch time": "12:00",
    "morning": "08:00",
    "seven o'clock tomorrow evening": "07:00",
    "three forty five p.m": "15:45",
    "one thirty p.m.": "13:30",
    "six fourty five": "06:45",
    "eight thirty": "08:30",
}
_TYPES = {
    "swimming pool": "swimmingpool",
    "mutliple sports": "multiple sports",
    "night club": "nightclub",
    "guest house": "guesthouse",
}
_FOODS = {
    "eriterean": "mediterranean",
    "brazilian": "portuguese",
    "sea food": "seafood",
    "portugese": "portuguese",
    "modern american": "north american",
    "americas": "north american",
    "intalian": "italian",
    "italain": "italian",
    "asian or oriental": "asian",
    "english": "british",
    "australasian": "australian",
    "gastropod": "gastropub",
    "brutish": "british",
    "bristish": "british",
    "europeon": "european",
}
_NAMES = {
    "hotel du vin bistro": "hotel du vin and bistro",
    "the river bar and grill": "the river bar steakhouse and grill",
    "nando's": "nandos",
    "city center b and b": "city center north b and b",
    "acorn house": "acorn guest house",
    "caffee uno": "caffe uno",
    "cafe uno": "caffe uno",
    "rosa's": "rosas bed and breakfast",
    "restaurant called two two": "restaurant two two",
    "restaurant 2 two": "restaurant two two",
    "restaurant two 2": "restaurant two two",
    "restaurant 2 2": "restaurant two two",
    "restaurant 1 7": "restaurant one seven",
    "restaurant 17": "restaurant one seven",
    "lime house": "limehouse",
    "cityrooms": "cityroomz",
    "whale of time": "whale of a time",
    "huntingdon hotel": "huntingdon marriott hotel",
    "holiday inn exlpress, cambridge": "express by holiday inn cambridge",
    "university hotel": "university arms hotel",
    "arbury guesthouse and lodge": "arbury lodge guesthouse",
    "bridge house": "bridge guest house",
    "arbury guesthouse": "arbury lodge guesthouse",
    "nandos in the city centre": "nandos city centre",
    "broughton gallery": "broughton house gallery",
    "scudamores punt co": "scudamores punting co",
    "cambridge botanic gardens": "cambridge university botanic gardens",
    "the junction": "junction theatre",
    "trinity street college": "trinity college",
    "christ college": "christ's college",
    "christs": "christ's college",
    "history of science museum": "whipple museum of the history of science",
    "parkside pools": "parkside swimming pool",
    "the botanical gardens at cambridge university": "cambridge university botanic gardens",
    "cafe jello museum": "cafe jello gallery",
}
