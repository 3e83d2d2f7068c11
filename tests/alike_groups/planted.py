"""Made-up failures: several hundred different ones, and near-duplicates of some planted among them.

`python -m tests.alike_groups.planted` prints how many of the near-duplicates are proposed, and how many others, among
480 groups and among 5,000, with every pair compared exactly.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from poisonadmin.groups.alike.domain.proposals import AlikeAnswer, ComparedGroup, Proposal, propose
from poisonadmin.groups.alike.domain.similarity import WORTH_COMPARING, ComparedFailure, compared, tokens
from poisonadmin.groups.domain.failures import fingerprint, from_dead_letter
from poisonadmin.messages.domain.dead_letter import DeadLetter

_NOUNS = [
    "Order",
    "Price",
    "Stock",
    "Invoice",
    "Customer",
    "Voucher",
    "Parcel",
    "Basket",
    "Refund",
    "Ledger",
    "Tariff",
    "Contract",
]
_ROLES = ["Service", "Mapper", "Validator", "Repository", "Client", "Calculator", "Policy", "Parser"]
_VERBS = ["load", "apply", "check", "map", "resolve", "convert", "reserve", "price", "merge", "split", "close", "sign"]
_NAMES = ["Acme", "Globex", "Initech", "Umbrella", "Hooli", "Vandelay", "Stark", "Wayne"]
_CLASSES = [
    "java.lang.NullPointerException",
    "java.lang.IllegalStateException",
    "java.lang.IllegalArgumentException",
    "org.springframework.dao.DataAccessException",
    "com.shop.errors.ShopException",
]
_MESSAGES = [
    'Cannot invoke "{noun}.total()" because "order" is null',
    "{noun} {id} was not found",
    "{noun} {id} is in state {state}",
    "value {id} is out of range",
    "",
]
_STATES = ["OPEN", "CLOSED", "LOCKED", "NEW"]
# What called it all: the same for every failure of a service.
_ENTRY = [
    "com.{app}.messaging.Listener.onMessage(Listener.java:41)",
    "com.{app}.messaging.Dispatcher.dispatch(Dispatcher.java:88)",
    "com.{app}.messaging.Retrying.lambda$dispatch$0(Retrying.java:17)",
    "org.springframework.jms.listener.AbstractMessageListenerContainer.invokeListener(AbstractMessageListenerContainer.java:700)",
    "java.base/java.lang.Thread.run(Thread.java:1583)",
]


@dataclass(frozen=True)
class Shape:
    """A failure before it is written down; `frames` are as its language prints them, the nearest to the cause first.

    Failures of one `kind` are the same one, told by another release, or of another customer.
    """

    language: str
    error_class: str
    message: str
    frames: tuple[str, ...] = ()
    kind: object = None

    @property
    def dead_letter(self) -> DeadLetter:
        """The failure as a consumer hands it in."""
        return DeadLetter(exception_class=self.error_class, exception_message=self.message, stack=self._stack())

    def _stack(self) -> str:
        if not self.frames:
            return ""
        if self.language == "java":
            return "\n".join([f"{self.error_class}: {self.message}", *(f"\tat {frame}" for frame in self.frames)])
        lines = ["Traceback (most recent call last):", *reversed(self.frames)]
        return "\n".join([*lines, f"{self.error_class}: {self.message}"])


@dataclass(frozen=True)
class Planted:
    """The failures, and of each of them its kind: those of one kind are near-duplicates of one another."""

    failures: Sequence[DeadLetter]
    kinds: Sequence[object]


def plant(different: int, duplicates: int, *, seed: int) -> Planted:
    """Return so many failures, and near-duplicates of the first of them.

    Of the failures some texts without a stack are the same but for a name. One in eight has all but the frame nearest
    to the cause in common with another one.
    """
    dice = random.Random(seed)
    shapes: list[Shape] = []
    seen: set[str] = set()
    while len(shapes) < different:
        model = dice.choice(shapes) if len(shapes) % 8 == 7 else None
        if model is not None and model.language == "java":
            shape = _sibling(model, dice)
        else:
            shape = dice.choice([_java, _java, _java, _python, _text])(dice)
        if (mark := fingerprint(from_dead_letter(shape.dead_letter))) not in seen:
            seen.add(mark)
            shapes.append(shape)
    for at in range(duplicates):
        for _ in range(20):
            copy = _changed(shapes[at], dice)
            if (mark := fingerprint(from_dead_letter(copy.dead_letter))) not in seen:
                seen.add(mark)
                shapes.append(copy)
                break
    return Planted([shape.dead_letter for shape in shapes], [shape.kind for shape in shapes])


def _java(dice: random.Random) -> Shape:
    app = dice.choice(["shop", "billing", "depot"])
    own = tuple(_java_frame(dice, app) for _ in range(dice.randrange(3, 8)))
    entry = tuple(frame.format(app=app) for frame in _ENTRY)
    return Shape("java", dice.choice(_CLASSES), _message(dice), (*own, *entry), kind=own)


def _java_frame(dice: random.Random, app: str) -> str:
    noun, role, verb = dice.choice(_NOUNS), dice.choice(_ROLES), dice.choice(_VERBS)
    return f"com.{app}.{noun.lower()}.{noun}{role}.{verb}{dice.choice(_NOUNS)}({noun}{role}.java:{dice.randrange(400)})"


def _sibling(shape: Shape, dice: random.Random) -> Shape:
    """Return another failure that was called by the same code, and says the same."""
    frames = (_java_frame(dice, "shop"), *shape.frames[1:])
    return replace(shape, frames=frames, kind=frames)


def _python(dice: random.Random) -> Shape:
    frames = tuple(_python_frame(dice) for _ in range(dice.randrange(3, 6)))
    classes = ["KeyError", "ValueError", "shop.errors.Rejected"]
    return Shape("python", dice.choice(classes), _message(dice), frames, kind=frames)


def _python_frame(dice: random.Random) -> str:
    module, verb, noun = dice.choice(_NOUNS).lower(), dice.choice(_VERBS), dice.choice(_NOUNS).lower()
    return f'  File "/srv/shop/{module}/{dice.choice(_ROLES).lower()}.py", line {dice.randrange(400)}, in {verb}_{noun}'


def _text(dice: random.Random) -> Shape:
    """An answer without a stack, whose words alone tell what it is."""
    noun, other, verb = dice.choice(_NOUNS), dice.choice(_NOUNS), dice.choice(_VERBS)
    text = dice.choice(
        [
            "HTTP 422 Unprocessable: the {noun} of customer {name} has no {other} to {verb}",
            "HTTP 503 {noun} backend for customer {name} does not {verb} the {other}",
            "HTTP 500 failed to {verb} {other} while {noun} of customer {name} is in state {state}",
        ]
    )
    said = text.format(noun=noun, other=other, verb=verb, name=dice.choice(_NAMES), state=dice.choice(_STATES))
    return Shape("text", "HttpStatusError", said, kind=(text, noun, other, verb))


def _message(dice: random.Random) -> str:
    return dice.choice(_MESSAGES).format(noun=dice.choice(_NOUNS), id=dice.randrange(10**6), state=dice.choice(_STATES))


def _changed(shape: Shape, dice: random.Random) -> Shape:
    """Return the same failure as another release, or another customer, would tell it."""
    if not shape.frames:
        words = shape.message.split()
        at = words.index("customer") + 1
        return replace(shape, message=" ".join([*words[:at], dice.choice(_NAMES), *words[at + 1 :]]))
    changes = [_with_a_frame_more, _with_another_class]
    return dice.choice([*changes, _with_a_proxy, _moved] if shape.language == "java" else changes)(shape, dice)


def _with_a_frame_more(shape: Shape, dice: random.Random) -> Shape:
    more = _java_frame(dice, "shop") if shape.language == "java" else _python_frame(dice)
    renumbered = [frame.replace("lambda$dispatch$0", "lambda$dispatch$3") for frame in shape.frames]
    return replace(shape, frames=(more, *renumbered), message=_other_ids(shape.message, dice))


def _with_another_class(shape: Shape, dice: random.Random) -> Shape:
    return replace(shape, error_class=f"com.shop.errors.{dice.choice(_NOUNS)}Failed")


def _with_a_proxy(shape: Shape, dice: random.Random) -> Shape:
    """The frame that is nearest to the cause goes through a class that is made at run time, under another name."""
    method, _, place = shape.frames[0].partition("(")
    owner, _, name = method.rpartition(".")
    proxied = f"{owner}$HibernateProxy${dice.randrange(16**8):08x}.{name}({place}"
    renamed = shape.frames[1].replace("(", f"{dice.choice(_NOUNS)}(")
    return replace(shape, frames=(proxied, renamed, proxied, *shape.frames[2:]))


def _moved(shape: Shape, dice: random.Random) -> Shape:
    """The package was renamed."""
    return replace(
        shape,
        frames=tuple(frame.replace("com.", "com.example.") for frame in shape.frames),
        message=_other_ids(shape.message, dice),
    )


def _other_ids(message: str, dice: random.Random) -> str:
    return " ".join(str(dice.randrange(10**6)) if word.isdigit() else word for word in message.split())


@dataclass(frozen=True)
class Figures:
    """How many failures are near-duplicates of an earlier one, how many are proposed to be merged into another one, and
    how many of these are of its kind."""

    planted: int
    proposed: int
    right: int

    @property
    def precision(self) -> float:
        """Part of the proposed that is right."""
        return self.right / max(1, self.proposed)

    @property
    def recall(self) -> float:
        """Part of the near-duplicates that is proposed, and rightly."""
        return self.right / max(1, self.planted)

    def __str__(self) -> str:
        return (
            f"{self.planted} planted, {self.proposed} proposed, {self.right} right:"
            f" precision {self.precision:.3f}, recall {self.recall:.3f}"
        )


def figures(planted: Planted, proposals: Sequence[Proposal], place_of: Callable[[ComparedGroup], int]) -> Figures:
    """Return how good the proposals are; `place_of`: a group's failure among the planted ones."""
    kinds = planted.kinds
    right = sum(kinds[place_of(one.into)] == kinds[place_of(one.group)] for one in proposals)
    return Figures(len(kinds) - len({*kinds}), len(proposals), right)


def exactly(planted: Planted) -> Figures:
    """Return how good the proposals are when every pair is compared."""
    failures = {at: compared(from_dead_letter(one)) for at, one in enumerate(planted.failures)}
    groups = [
        ComparedGroup(at, at, fingerprint(from_dead_letter(one)), at, 0) for at, one in enumerate(planted.failures)
    ]
    answer = AlikeAnswer(len(groups), list(_worth_comparing(failures)), failures)
    return figures(planted, propose(groups, answer, dismissed=()), lambda group: group.id)


def _worth_comparing(failures: Mapping[int, ComparedFailure]) -> Iterator[tuple[int, int]]:
    """Yield the pairs with as many tokens in common as the job looks for."""
    sets = {at: {*tokens(one)} for at, one in failures.items()}
    holders: dict[str, list[int]] = {}
    for at, some in sets.items():
        for token in some:
            holders.setdefault(token, []).append(at)
    for at, some in sets.items():
        counts = Counter(other for token in some for other in holders[token] if other > at)
        for other, common in counts.items():
            if common >= WORTH_COMPARING * (len(some) + len(sets[other]) - common):
                yield at, other


if __name__ == "__main__":
    for number, (different, duplicates) in enumerate([(400, 80)] * 5 + [(4_200, 800)]):
        made = plant(different, duplicates, seed=number)
        print(f"seed {number}, {len(made.failures)} failures: {exactly(made)}")
